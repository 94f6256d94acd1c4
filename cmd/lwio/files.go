package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lwio"
)

// fileJSON is how --json shows a file or a directory.
type fileJSON struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
	Dir      bool      `json:"dir"`
}

func toJSON(fi fs.FileInfo) fileJSON {
	return fileJSON{fi.Name(), fi.Size(), fi.Mode().String(), fi.ModTime(), fi.IsDir()}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *app) lsCommand() *cobra.Command {
	var long, asJSON, recursive bool
	cmd := &cobra.Command{
		Use: "ls [-lR] URL ...", Short: "List directories", Args: minArgs("one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachURL(cmd.Context(), args, func(ctx context.Context, c *lwio.Client, t *lwio.Target) error {
				if recursive {
					return a.listAll(ctx, remoteTree{c, t}, long, asJSON)
				}
				infos, err := list(ctx, c, t.Path)
				if infos == nil {
					return err
				}
				if len(args) > 1 && !asJSON {
					fmt.Fprintf(a.stdout, "%s:\n", printable(remoteTree{c, t}.Describe(t.Path)))
				}
				return errors.Join(printList(a.stdout, infos, long, asJSON), err)
			})
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "show mode, size and time")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "list directories below too; a directory that cannot be listed is an error, and the others are listed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.clientFlags(cmd)
}

// list returns the output of ls for a name: the entries of a directory, or the file itself. If
// the directory has entries that cannot be listed, it returns the others and an error.
func list(ctx context.Context, c *lwio.Client, name string) ([]fs.FileInfo, error) {
	fi, err := c.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return []fs.FileInfo{fi}, nil
	}
	entries, unread := c.ReadDir(ctx, name)
	if unread != nil && len(entries) == 0 {
		return nil, unread
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return nil, err
		}
		infos = append(infos, fi)
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	return infos, unread
}

// printList prints a listing, sorted as it is: names, lines with mode, size and time, or JSON.
func printList(out io.Writer, infos []fs.FileInfo, long, asJSON bool) error {
	if asJSON {
		list := make([]fileJSON, 0, len(infos))
		for _, fi := range infos {
			list = append(list, toJSON(fi))
		}
		return writeJSON(out, list)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, fi := range infos {
		name := printable(fi.Name())
		if fi.IsDir() {
			name += "/"
		}
		if !long {
			fmt.Fprintln(out, name)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t %s\n", fi.Mode(), fi.Size(), fi.ModTime().Format(time.DateTime), name)
	}
	return w.Flush()
}

func (a *app) catCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cat URL ...", Short: "Write files to standard output", Args: minArgs("one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachURL(cmd.Context(), args, func(ctx context.Context, c *lwio.Client, t *lwio.Target) error {
				src, err := openRemote(ctx, c, t.Path)
				if err != nil {
					return err
				}
				_, err = transfer(ctx, src, &streamSink{w: a.stdout}, transferOptions{depth: c.MaxInFlight()})
				return errors.Join(err, src.Close(err))
			})
		},
	}
	return a.clientFlags(cmd)
}

func (a *app) statCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "stat URL ...", Short: "Describe files and directories", Args: minArgs("one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachURL(cmd.Context(), args, func(ctx context.Context, c *lwio.Client, t *lwio.Target) error {
				fi, err := c.Stat(ctx, t.Path)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, toJSON(fi))
				}
				kind := "file"
				if fi.IsDir() {
					kind = "directory"
				}
				_, err = fmt.Fprintf(a.stdout, "name: %s\nkind: %s\nsize: %d\nmode: %s\nmodified: %s\n",
					fi.Name(), kind, fi.Size(), fi.Mode(), fi.ModTime().Format(time.RFC3339Nano))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.clientFlags(cmd)
}

func (a *app) rmCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "rm URL ...", Short: "Remove files and empty directories", Args: minArgs("one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachURL(cmd.Context(), args, func(ctx context.Context, c *lwio.Client, t *lwio.Target) error {
				if recursive {
					return removeAll(ctx, c, t.Path)
				}
				return c.Remove(ctx, t.Path)
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and their content")
	return a.clientFlags(cmd)
}

// removal removes names and everything below them.
type removal struct {
	c     *lwio.Client
	spare chan struct{} // has a token for each goroutine that may be started
	lost  atomic.Bool   // the server is lost or does not respond: nothing is begun any more
}

// removeAll removes a name and, if it is a directory, everything below it, treeWorkers names at a time. It
// continues after a failure and reports all failures, unless the server is lost or does not respond.
func removeAll(ctx context.Context, c *lwio.Client, name string) error {
	r := &removal{c: c, spare: make(chan struct{}, treeWorkers-1)}
	return r.remove(ctx, name)
}

// The pauses before a name is removed again whose file is being removed under another name.
const (
	firstBusyPause = time.Millisecond
	maxBusyPause   = time.Second
)

// one removes a file or an empty directory. Of several links to one file, which are removed at the same time, the server
// admits one after the other.
func (r *removal) one(ctx context.Context, name string) error {
	for pause := firstBusyPause; ; pause *= 2 {
		err := r.c.Remove(ctx, name)
		if !errors.Is(err, syscall.EBUSY) || pause > maxBusyPause {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// remove removes a name. It removes an entry without listing it if it can: of a link to a directory, only
// the link is removed.
func (r *removal) remove(ctx context.Context, name string) error {
	err := r.one(ctx, name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		if gone(err) {
			r.lost.Store(true)
		}
		return err
	}
	entries, err := r.c.ReadDir(ctx, name)
	errs := make([]error, len(entries)+1)
	errs[0] = err
	var wg sync.WaitGroup
	for i, e := range entries {
		if r.lost.Load() {
			break
		}
		work := func() { errs[i+1] = r.remove(ctx, path.Join(name, e.Name())) }
		select {
		case r.spare <- struct{}{}:
			wg.Go(func() { defer func() { <-r.spare }(); work() })
		default:
			work()
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.one(ctx, name)
}

func (a *app) mkdirCommand() *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use: "mkdir URL ...", Short: "Make directories", Args: minArgs("one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachURL(cmd.Context(), args, func(ctx context.Context, c *lwio.Client, t *lwio.Target) error {
				if parents {
					return mkdirAll(ctx, c, t.Path)
				}
				return c.Mkdir(ctx, t.Path, 0o777)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents too; no error if the directory exists")
	return a.clientFlags(cmd)
}

// mkdirAll makes a directory and its missing parents.
func mkdirAll(ctx context.Context, c *lwio.Client, name string) error {
	if name == "" || name == "." {
		return nil
	}
	fi, err := c.Stat(ctx, name)
	switch {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: errors.New("a file is in the way")}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := mkdirAll(ctx, c, path.Dir(name)); err != nil {
		return err
	}
	if err := c.Mkdir(ctx, name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (a *app) mvCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mv URL URL", Short: "Rename a file or directory within a share",
		Args: exactArgs(2, "two URLs of one share"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := target(args[1])
			if err != nil {
				return err
			}
			return a.withTarget(cmd.Context(), args[0], func(c *lwio.Client, from *lwio.Target) error {
				if from.Host != to.Host || from.Share != to.Share {
					return usagef("mv works within one share; use cp and rm from %s to %s", from, to)
				}
				dst := to.Path
				if fi, err := c.Stat(cmd.Context(), dst); err == nil && fi.IsDir() {
					dst = path.Join(dst, path.Base(from.Path))
				}
				if dst != from.Path && below(dst, from.Path) {
					if fi, err := c.Stat(cmd.Context(), from.Path); err == nil && fi.IsDir() {
						return &fs.PathError{Op: "mv", Path: from.Path, Err: fmt.Errorf("cannot be moved into itself, to %s", dst)}
					}
				}
				return c.Rename(cmd.Context(), from.Path, dst)
			})
		},
	}
	return a.clientFlags(cmd)
}

// eachURL runs f for each URL, even after a failure.
func (a *app) eachURL(ctx context.Context, args []string, f func(context.Context, *lwio.Client, *lwio.Target) error) error {
	var errs []error
	for _, arg := range args {
		errs = append(errs, a.withTarget(ctx, arg, func(c *lwio.Client, t *lwio.Target) error { return f(ctx, c, t) }))
	}
	return errors.Join(errs...)
}
