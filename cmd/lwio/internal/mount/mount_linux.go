// Package mount shows a share as a directory of the host, by FUSE.
package mount

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"os"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lwio"
)

// maxRequest is the size of the largest read or write of the kernel, in bytes.
const maxRequest = 1 << 20

// Config configures New.
type Config struct {
	// Client is the client of the share, which the caller closes after Wait.
	Client *lwio.Client
	// Dir is the directory on which the share is mounted.
	Dir string
	// Source is the name of the share in the table of mounts.
	Source string
	// ReadOnly refuses changes.
	ReadOnly bool
	// NoExec forbids the execution of files.
	NoExec bool
	// AllowOther lets other users use the mount; the kernel then checks owner and mode.
	AllowOther bool
	// PageCache lets the kernel keep data of a file while it is open: reads see changes of other hosts when the
	// file is opened anew. Without it each read and write asks the server.
	PageCache bool
	// Timeout bounds each request of the kernel; the Config.Timeout of the client.
	Timeout time.Duration
	// Remember is how long the kernel may keep names and attributes. 0 keeps none.
	Remember time.Duration
	// UID, GID, FileMode and DirMode are owner and permissions of all files.
	UID, GID          uint32
	FileMode, DirMode uint32
	// Logger receives failures that no program learns of; nil discards them.
	Logger *slog.Logger
}

// files is the mounted share.
type files struct {
	c         *lwio.Client
	buffers   *buffers
	look      look
	openFlags uint32
	timeout   time.Duration
	log       *slog.Logger
}

// Mount is a share that is mounted.
type Mount struct {
	files  *files
	server *fuse.Server
	dir    string
}

// fsType is the type of the mount in the table of mounts, behind "fuse.".
const fsType = "lwio"

// New mounts a share. A mount that a killed process has left on the directory is removed first.
//
// Errors: the errors of mount(2) and of the program fusermount3, with the directory.
func New(cfg Config) (*Mount, error) {
	m := &files{
		c: cfg.Client, buffers: newBuffers(cfg.Client), timeout: cfg.Timeout, log: cfg.Logger,
		look: look{uid: cfg.UID, gid: cfg.GID, fileMode: cfg.FileMode, dirMode: cfg.DirMode},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if !cfg.PageCache {
		m.openFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	}
	if err := clear(cfg.Dir); err != nil {
		return nil, err
	}
	o := &fusefs.Options{
		MountOptions: fuse.MountOptions{
			AllowOther: cfg.AllowOther, FsName: cfg.Source, Name: fsType, DisableXAttrs: true, DisableSplice: true,
			ExtraCapabilities: fuse.CAP_DIRECT_IO_ALLOW_MMAP, DirectMount: os.Geteuid() == 0,
			MaxWrite: maxRequest, MaxReadAhead: maxRequest, MaxBackground: min(cfg.Client.MaxInFlight(), math.MaxUint16),
			Logger: log.New(io.Discard, "", 0),
		},
		AttrTimeout: &cfg.Remember, EntryTimeout: &cfg.Remember,
		Logger: log.New(io.Discard, "", 0),
	}
	if cfg.AllowOther {
		o.Options = append(o.Options, "default_permissions")
	}
	o.DirectMountFlags = unix.MS_NOSUID | unix.MS_NODEV
	if cfg.ReadOnly {
		o.Options = append(o.Options, "ro")
		o.DirectMountFlags |= unix.MS_RDONLY
	}
	if cfg.NoExec {
		o.DirectMountFlags |= unix.MS_NOEXEC
		if !o.DirectMount { // an option of fusermount3, which mount(2) does not know
			o.Options = append(o.Options, "noexec")
		}
	}
	server, err := fusefs.Mount(cfg.Dir, &node{m: m}, o)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", cfg.Dir, err)
	}
	return &Mount{m, server, cfg.Dir}, nil
}

// clear checks the directory, and removes a mount of a process that has died.
func clear(dir string) error {
	switch i, err := os.Stat(dir); {
	case errors.Is(err, syscall.ENOTCONN):
		if err := detach(dir); err != nil {
			return fmt.Errorf("mount %s: a dead mount is in the way: %w", dir, err)
		}
	case err != nil:
		return fmt.Errorf("mount: %w", err)
	case !i.IsDir():
		return fmt.Errorf("mount %s: %w", dir, syscall.ENOTDIR)
	}
	return nil
}

// Wait waits until the share is not mounted any more, and frees the memory of the mount.
func (m *Mount) Wait() {
	m.server.Wait()
	m.files.buffers.close()
}

// Unmount removes the mount. If a program uses it, the directory is free at once, and the mount ends with the last use
// of the program; files that are open work until then, while the process lives.
func (m *Mount) Unmount() error {
	if m.server.Unmount() == nil {
		return nil
	}
	return detach(m.dir)
}
