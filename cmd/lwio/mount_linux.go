package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/mount"
)

// mountOptions are the flags of mount.
type mountOptions struct {
	readOnly, noExec, allowOther, pageCache bool
	background                              bool
	remember                                time.Duration
	uid, gid                                int
	fileMode, dirMode                       permissions
}

// permissions is the value of a flag: permissions in octal.
type permissions uint32

// Set takes the text of the command line.
func (p *permissions) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return errors.New("it must be an octal number up to 777")
	}
	*p = permissions(n)
	return nil
}

// String is the value as on the command line.
func (p *permissions) String() string { return fmt.Sprintf("%03o", uint32(*p)) }

// Type is the name of the value in the help.
func (p *permissions) Type() string { return "mode" }

func (a *app) mountCommand() *cobra.Command {
	o := mountOptions{uid: os.Geteuid(), gid: os.Getegid(), fileMode: 0o755, dirMode: 0o755}
	cmd := &cobra.Command{
		Use:   "mount [flags] URL DIR",
		Short: "Show a share as a directory of this host",
		Long: `Show a share as the directory DIR, by FUSE, until interrupted or until 'fusermount3 -u DIR'.
Root needs no other program; other users need fusermount3. The URL names a share, without a
path. Once the share is mounted, mount prints DIR. With --background it then returns, and the
mount goes on in another process. Under the name mount.lwio the command is the helper of
mount(8) for the type lwio, as in fstab.

Each read and write asks the server, so all hosts see the same data. --page-cache lets the
kernel keep data of a file while it is open. Every call ends within --timeout, also if the
server does not answer; a server that restarts is a pause.

SMB carries no owners and modes: all files have those of the flags, and chmod keeps only whether
the owner may write a file. There are no symbolic and hard links, and no extended attributes. Locks (flock, fcntl) hold
within this host.`,
		Args: exactArgs(2, "a URL and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.background && !a.inBackground() {
				return a.background()
			}
			return a.mount(cmd.Context(), &o, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.readOnly, "read-only", false, "refuse changes")
	f.BoolVar(&o.noExec, "no-exec", false, "forbid the execution of files")
	f.BoolVar(&o.background, "background", false, "return once the share is mounted")
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users use the directory, as its owner and modes allow")
	f.BoolVar(&o.pageCache, "page-cache", false, "let the kernel keep data while a file is open: changes of other hosts show at the next open")
	f.Var((*duration)(&o.remember), "remember", "how long the kernel may keep names and attributes")
	f.IntVar(&o.uid, "uid", o.uid, "owner of the files")
	f.IntVar(&o.gid, "gid", o.gid, "group of the files")
	f.Var(&o.fileMode, "file-mode", "permissions of files")
	f.Var(&o.dirMode, "dir-mode", "permissions of directories")
	return a.clientFlags(cmd)
}

// duration is the value of a flag: a duration of 0 or more.
type duration time.Duration

// Set takes the text of the command line.
func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if v < 0 {
		return errors.New("it must be 0 or more")
	}
	*d = duration(v)
	return nil
}

// String is the value as on the command line.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type is the name of the value in the help.
func (d *duration) Type() string { return "duration" }

// mounted reports that the share is mounted.
func (a *app) mounted(dir string) error {
	if a.inBackground() {
		return a.detach()
	}
	_, err := fmt.Fprintln(a.stdout, dir)
	return err
}

// mount mounts a share until ctx ends, or until another program removes the mount.
func (a *app) mount(ctx context.Context, o *mountOptions, url, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	a.reconnect = a.timeout
	return a.withTarget(ctx, url, func(c *lwio.Client, t *lwio.Target) error {
		if t.Path != "" {
			return usagef("mount: the URL has the path %q, and only a whole share can be mounted", t.Path)
		}
		if i, err := c.Stat(ctx, ""); err != nil {
			return err
		} else if !i.IsDir() {
			return fmt.Errorf("mount %s: the share is not a directory", t)
		}
		m, err := mount.New(mount.Config{
			Client: c, Dir: dir, Source: t.String(), ReadOnly: o.readOnly, NoExec: o.noExec, AllowOther: o.allowOther, PageCache: o.pageCache,
			Timeout: a.timeout, Remember: o.remember,
			UID: uint32(o.uid), GID: uint32(o.gid), FileMode: uint32(o.fileMode), DirMode: uint32(o.dirMode),
			Logger: a.logger(context.WithoutCancel(ctx)),
		})
		if err != nil {
			return err
		}
		if err := a.mounted(dir); err != nil {
			return errors.Join(err, m.Unmount())
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			m.Wait()
		}()
		select {
		case <-gone:
			return nil
		case <-ctx.Done():
		}
		select {
		case <-gone: // the directory may have another mount by now
			return nil
		default:
		}
		if err := m.Unmount(); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		<-gone
		return nil
	})
}
