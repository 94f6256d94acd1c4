package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lwio"
)

// cpOptions are the flags of cp.
type cpOptions struct {
	recursive bool
	archive   bool // recursive is set too
	verify    bool
	resume    bool
}

func (a *app) cpCommand() *cobra.Command {
	var o cpOptions
	cmd := &cobra.Command{
		Use:   "cp [-r|-a] [--verify] [--resume] SRC DST",
		Short: "Copy files from or to a share",
		Long: `Copy a file, or with -r a directory, from or to a share. SRC and DST are URLs or
local paths; '-' is standard input or output. If DST is a directory, the copy goes
into it. A file gets its name only after all of its data has arrived: a copy that fails
leaves the old file in place, or reports that the outcome is unknown.

With --resume a copy that fails, or is killed, leaves its data in a hidden file beside DST,
and the same command goes on behind it, if the source has kept its size and time. The last
16 MiB before that place are compared; --verify compares all of the copy. Files of DST with
the size of the source that are not older are complete; --verify compares them too.

With -a a copy has the times of its source in units of 100 ns, its holes, and its owner's permission
to write or not; other modes and owners get lost, because SMB does not carry them. From a share, files
with several names get their links; to a share, each name becomes a file. Symbolic links, devices
and pipes are not copied: -a names them and fails, -r skips them. Together with --resume, holes
become zeros.

A copy replaces a file of DST that is read-only, as rsync does: the right to change the directory
decides.`,
		Args: exactArgs(2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.recursive = o.recursive || o.archive
			return a.cp(cmd.Context(), o, args[0], args[1])
		},
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "copy directories and their content")
	cmd.Flags().BoolVarP(&o.archive, "archive", "a", false, "as -r, and keep times, read-only attributes, links and holes")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "read every copy back and compare it")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "go on with a copy that failed or was killed")
	return a.clientFlags(cmd)
}

// location is the source or the destination of a copy: a tree and a name in it, or a standard
// stream.
type location struct {
	tree   tree
	name   string
	isDir  bool // the name ends with a slash, so it must be a directory
	stream bool
	target *lwio.Target // of the URL, if the tree is a share
	client *lwio.Client // and the connection to close
}

func (p *location) close() error {
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}

// location opens the source or destination that an argument names.
func (a *app) location(ctx context.Context, arg string) (*location, error) {
	if arg == "-" {
		return &location{stream: true}, nil
	}
	if !isURL(arg) {
		return &location{tree: localTree{}, name: filepath.Clean(arg), isDir: os.IsPathSeparator(arg[len(arg)-1])}, nil
	}
	c, t, err := a.dial(ctx, arg)
	if err != nil {
		return nil, err
	}
	typed, _, _ := strings.Cut(arg, "?")
	return &location{tree: remoteTree{c, t}, name: path.Clean(t.Path), isDir: strings.HasSuffix(typed, "/"), target: t, client: c}, nil
}

func (a *app) cp(ctx context.Context, o cpOptions, srcArg, dstArg string) error {
	switch {
	case srcArg == "" || dstArg == "":
		return usagef("an empty name")
	case !isURL(srcArg) && !isURL(dstArg):
		return usagef("neither %q nor %q is a URL; use cp for local files", srcArg, dstArg)
	case o.verify && dstArg == "-":
		return usagef("--verify cannot read standard output back")
	}
	if (o.resume || o.archive) && (srcArg == "-" || dstArg == "-") {
		return usagef("-a and --resume need a file on both sides")
	}
	j := &copyJob{opts: o, bar: newProgress(a.stderr)}
	beside := *a // messages of the connections go above the bar
	beside.stderr = j.bar
	if o.resume {
		beside.instance = "lwio cp --resume " + redacted(srcArg) + " " + redacted(dstArg)
	}
	src, err := beside.location(ctx, srcArg)
	if err != nil {
		return err
	}
	dst, err := beside.location(ctx, dstArg)
	if err != nil {
		return errors.Join(err, src.close())
	}
	err = a.copyLocations(ctx, j, src, dst)
	j.bar.finish(err == nil)
	return errors.Join(err, src.close(), dst.close())
}

// copyLocations chooses the kind of the copy by source and destination.
func (a *app) copyLocations(ctx context.Context, j *copyJob, src, dst *location) error {
	switch {
	case src.stream:
		return j.fromStream(ctx, a.stdin, dst)
	case dst.stream:
		f, err := src.tree.Open(ctx, src.name)
		if err != nil {
			return err
		}
		_, err = transfer(ctx, f, &streamSink{w: a.stdout}, j.transferOptions(src.tree))
		return errors.Join(err, f.Close(err))
	}
	if err := j.refuseLink(src); err != nil {
		return err
	}
	fi, err := src.tree.Stat(ctx, src.name)
	if err != nil {
		return err
	}
	name := dst.name
	di, err := dst.tree.Stat(ctx, name)
	switch {
	case err == nil && di.IsDir():
		if base := baseName(src); base != "" {
			name = dst.tree.Join(name, base)
		}
	case dst.isDir && !fi.IsDir():
		return &fs.PathError{Op: "cp", Path: dst.tree.Describe(name) + "/", Err: errors.New("no such directory")}
	case err == nil && dst.client == nil && !di.Mode().IsRegular() && !fi.IsDir():
		return j.toDevice(ctx, src, name)
	}
	if sameShare(src, dst) && name == src.name {
		return &fs.PathError{Op: "cp", Path: src.tree.Describe(src.name), Err: errors.New("source and destination are the same")}
	}
	if !fi.IsDir() {
		return j.alone(ctx, src, dst, name, fi)
	}
	if !j.opts.recursive {
		return &fs.PathError{Op: "cp", Path: src.tree.Describe(src.name), Err: errors.New("is a directory; use -r")}
	}
	if sameShare(src, dst) && below(name, src.name) {
		return &fs.PathError{Op: "cp", Path: src.tree.Describe(src.name), Err: fmt.Errorf("cannot be copied into itself, to %s", dst.tree.Describe(name))}
	}
	_, _, err = j.directory(ctx, src.tree, src.name, dst.tree, name)
	return err
}

// alone copies a file that is the whole source.
func (j *copyJob) alone(ctx context.Context, src, dst *location, name string, fi fs.FileInfo) error {
	j.bar.expect(fi.Size())
	_, err := j.file(ctx, src.tree, src.name, dst.tree, name)
	if err == nil && j.opts.archive {
		err = j.keep(ctx, dst.tree, name, attributesOf(fi))
	}
	return err
}

// refuseLink refuses a source of cp -a that is a symbolic link itself.
func (j *copyJob) refuseLink(src *location) error {
	if !j.opts.archive || src.client != nil || src.stream {
		return nil
	}
	fi, err := os.Lstat(src.name)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		err = uncopied(src.name, fi.Mode())
	}
	return err
}

// errNoReadBack refuses --verify and --resume for destinations that take bytes once.
var errNoReadBack = errors.New("a device or pipe cannot be read back")

// errNoAttributes refuses -a for a device or pipe, whose attributes are its own.
var errNoAttributes = errors.New("-a would change the times of the device or pipe")

// toDevice copies a file of a share to a local device or named pipe.
func (j *copyJob) toDevice(ctx context.Context, src *location, name string) error {
	switch {
	case j.opts.verify || j.opts.resume:
		return &fs.PathError{Op: "cp", Path: name, Err: errNoReadBack}
	case j.opts.archive:
		return &fs.PathError{Op: "cp", Path: name, Err: errNoAttributes}
	}
	in, err := src.tree.Open(ctx, src.name)
	if err != nil {
		return err
	}
	out, err := openDevice(ctx, name)
	if err != nil {
		return errors.Join(err, in.Close(err))
	}
	defer context.AfterFunc(ctx, func() { _ = out.SetWriteDeadline(time.Unix(1, 0)) })() // a device has no deadlines
	j.bar.expect(in.Size())
	_, err = transfer(ctx, in, &streamSink{w: out}, j.transferOptions(src.tree))
	return errors.Join(err, out.Close(), in.Close(err))
}

// openDevice opens a device or named pipe for writing. A pipe waits for its reader: if ctx ends first, the goroutine
// that waits ends with the process.
func openDevice(ctx context.Context, name string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result)
	go func() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// baseName is the name of the copy of a source in a directory. The root of a share and a
// source such as ".." have no name.
func baseName(p *location) string {
	base := path.Base(filepath.ToSlash(p.name))
	if base == "." || base == ".." || base == "/" {
		return ""
	}
	return base
}

// sameShare reports whether two locations are on one share, by their URLs. Case does not distinguish
// hosts or shares.
func sameShare(a, b *location) bool {
	return a.target != nil && b.target != nil && strings.EqualFold(a.target.Host, b.target.Host) && strings.EqualFold(a.target.Share, b.target.Share)
}

// below reports whether a slash-separated name is dir or lies in it.
func below(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// copyJob copies files and counts them.
type copyJob struct {
	opts cpOptions
	bar  *progress
}

func (j *copyJob) transferOptions(trees ...tree) transferOptions {
	depth := maxDepth
	for _, t := range trees {
		depth = min(depth, t.Depth())
	}
	return transferOptions{depth: depth, progress: j.bar.add}
}

// smallSize is the size up to which a file is read and written in one piece, in bytes: the library reads one byte
// more in one round trip, which tells whether the file has grown.
const smallSize = 64<<10 - 1

// small copies one file of a directory, of at most smallSize bytes by its listing, with the attributes that cp -a keeps.
// It reports false if the file has grown.
func (t *treeCopy) small(ctx context.Context, job fileJob) (n int64, done bool, err error) {
	b := chunks.Get().(*[]byte)
	defer chunks.Put(b)
	p := (*b)[:job.size+1]
	size, done, err := t.src.ReadSmall(ctx, job.from, p)
	if err != nil || !done {
		return 0, done, err
	}
	if err = t.dst.WriteSmall(ctx, job.to, p[:size], job.kept); err != nil {
		left := asItWas
		if errors.Is(err, lwio.ErrUncertain) {
			left = asItMayBe
		}
		return 0, true, fmt.Errorf("cp %s: %w (%s %s)", t.src.Describe(job.from), err, t.dst.Describe(job.to), left)
	}
	t.bar.add(size)
	return int64(size), true, nil
}

// file copies one file and returns the number of bytes that arrived. After an error the
// destination is unchanged, unless the error says that its state is unknown.
func (j *copyJob) file(ctx context.Context, src tree, from string, dst tree, to string) (n int64, err error) {
	in, err := src.Open(ctx, from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close(err) }() // it was only read
	out, begin, err := j.begin(ctx, src, from, in, dst, to)
	switch {
	case err != nil:
		return 0, err
	case out == nil:
		j.bar.add(int(in.Size()))
		return in.Size(), nil
	}
	opts := j.transferOptions(src, dst)
	if j.opts.resume {
		opts.begin, opts.window = begin, resumeWindow
		j.bar.add(int(begin))
	}
	into, err := j.sparse(ctx, in, out)
	if err == nil {
		n, err = transfer(ctx, in, into, opts)
	}
	n += begin
	if err == nil && j.opts.verify {
		err = compare(ctx, sizedSource{in, n}, out.Source(n), transferOptions{depth: opts.depth})
	}
	left := asItWas
	if err == nil {
		left, err = commit(ctx, out)
	}
	if err != nil {
		of := ""
		if in.Size() >= 0 {
			of = fmt.Sprintf(" of %d", in.Size())
		}
		err = fmt.Errorf("cp %s: %w (%d%s bytes were copied; %s %s)", src.Describe(from), err, n, of, dst.Describe(to), left)
		return n, errors.Join(err, out.Abort(err))
	}
	return n, nil
}

// begin begins the destination of a file, or goes on with one behind an offset. The result is nil if the
// destination is a copy already.
func (j *copyJob) begin(ctx context.Context, src tree, from string, in source, dst tree, to string) (out pendingFile, at int64, err error) {
	if !j.opts.resume {
		out, err = dst.Create(ctx, to)
		return out, 0, err
	}
	info, err := src.Stat(ctx, from)
	switch {
	case err != nil:
		return nil, 0, err
	case in.Size() < 0 || in.Size() != info.Size():
		return nil, 0, &fs.PathError{Op: "cp", Path: src.Describe(from), Err: errNoResume}
	}
	if there, err := j.present(ctx, info, in, dst, to); there || err != nil {
		return nil, 0, err
	}
	part, err := dst.Resume(ctx, to, partName(src, from, info, path.Base(filepath.ToSlash(to))))
	if err != nil {
		return nil, 0, err
	}
	if at, err = j.resume(ctx, in, part); err != nil {
		return nil, 0, errors.Join(err, part.Abort(err))
	}
	return part, at, nil
}

// The states of the destination of a failed copy.
const (
	asItWas   = "is as it was"
	asItMayBe = "is as it was, or the copy"
)

// commit gives a file its name. After a failure, left describes the file under that name.
func commit(ctx context.Context, out pendingFile) (left string, err error) {
	if err = out.Commit(ctx); errors.Is(err, lwio.ErrUncertain) {
		return asItMayBe, err
	}
	return asItWas, err
}

// fromStream copies standard input to a file.
func (j *copyJob) fromStream(ctx context.Context, stdin io.Reader, dst *location) error {
	if fi, err := dst.tree.Stat(ctx, dst.name); dst.isDir || err == nil && fi.IsDir() {
		return &fs.PathError{Op: "cp", Path: dst.tree.Describe(dst.name), Err: errors.New("is a directory; standard input has no name to use in it")}
	}
	out, err := dst.tree.Create(ctx, dst.name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	in := &digestSource{source: &streamSource{stdin}, h: sum}
	n, err := transfer(ctx, in, out, j.transferOptions(dst.tree))
	if err == nil && j.opts.verify {
		err = verifyDigest(ctx, out.Source(n), sum)
	}
	left := asItWas
	if err == nil {
		left, err = commit(ctx, out)
	}
	if err != nil {
		err = fmt.Errorf("cp -: %w (%d bytes were copied; %s %s)", err, n, dst.tree.Describe(dst.name), left)
		return errors.Join(err, out.Abort(err))
	}
	return nil
}

// verifyDigest reads a copy back and compares its digest with sum.
func verifyDigest(ctx context.Context, src source, sum hash.Hash) error {
	back := sha256.New()
	if _, err := transfer(ctx, src, &streamSink{w: back}, transferOptions{depth: 4}); err != nil {
		return err
	}
	if !bytes.Equal(back.Sum(nil), sum.Sum(nil)) {
		return errDiffers
	}
	return nil
}
