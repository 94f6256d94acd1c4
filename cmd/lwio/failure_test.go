package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lwio"
)

// The message of each failure names the object, and the server still serves.
func TestFailureMessagesNameTheObject(t *testing.T) {
	s := startServer(t, t.TempDir())
	outside := t.TempDir()
	write(t, []byte("secret"), outside, "secret")
	write(t, []byte("hello"), s.dir, "file")
	if err := os.Mkdir(filepath.Join(s.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(s.dir, "leak")); err != nil {
		t.Fatal(err)
	}
	local := t.TempDir()
	src := write(t, []byte("new"), local, "src")
	user, rest, _ := strings.Cut(strings.TrimPrefix(s.url, "lwio://"), "@")
	name, _, _ := strings.Cut(user, ":")
	for _, c := range []struct {
		what string
		args []string
		want string
	}{
		{"wrong password", []string{"ls", "lwio://" + name + ":wrong@" + rest}, "LOGON_FAILURE"},
		{"unknown share", []string{"ls", strings.Replace(s.url, "/data", "/nothing", 1)}, "nothing"},
		{"missing file", []string{"cp", s.url + "/missing", local}, "missing"},
		{"missing directory", []string{"cp", src, s.url + "/no/where"}, "where"},
		{"no local directory", []string{"cp", s.url + "/file", filepath.Join(local, "no", "copy")}, "create " + filepath.Join(local, "no", "copy")},
		{"missing source", []string{"cp", filepath.Join(local, "none"), s.url + "/x"}, "none"},
		{"file in the way", []string{"mkdir", s.url + "/file"}, "file"},
		{"file in the way of a tree", []string{"cp", "-r", local, s.url + "/file"}, "in the way"},
		{"directory in the way", []string{"mv", s.url + "/dir", s.url + "/file"}, "dir"},
		{"directory into itself", []string{"mv", s.url + "/dir", s.url + "/dir"}, "into itself, to dir/dir"},
		{"directory below itself", []string{"mv", s.url + "/dir", s.url + "/dir/x"}, "into itself"},
		{"missing below itself", []string{"mv", s.url + "/none", s.url + "/none/x"}, "no such"},
		{"directory without -r", []string{"cp", s.url + "/dir", local}, "-r"},
		{"parent", []string{"cat", s.url + "/../secret"}, ".."},
		{"parent inside", []string{"cat", s.url + "/dir/../../secret"}, ".."},
		{"symbolic link", []string{"cat", s.url + "/leak"}, "leak"},
		{"stream name", []string{"cp", src, s.url + "/a:b"}, "a:b"},
		{"wildcard", []string{"cp", src, s.url + "/a%2Ab"}, "'*'"},
		{"backslash", []string{"cp", src, s.url + `/a%5Cb`}, "a%5Cb"},
		{"no listener", []string{"ls", "lwio://u:p@127.0.0.1:1/data"}, "127.0.0.1:1"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := runCommand(t.Context(), strings.NewReader(""), c.args...)
			if r.code != exitFailure && r.code != exitUsage {
				t.Errorf("exit status %d", r.code)
			}
			if !strings.HasPrefix(r.err, "lwio: ") || !strings.Contains(r.err, c.want) {
				t.Errorf("message %q does not name %q", r.err, c.want)
			}
			if strings.Contains(r.out+r.err, "secret\n") || r.out == "secret" {
				t.Error("the secret is out")
			}
		})
	}
	wantFile(t, filepath.Join(s.dir, "file"), []byte("hello"))
	wantNames(t, s.dir, "dir", "file", "leak")
	run(t, exitOK, "ls", s.url)
}

// TestMessages prints errors with several parts: each part has a line of its own, and line
// ends within a part do not count.
func TestErrorsPrintOneLineEach(t *testing.T) {
	a, b := errors.New("a\nx"), errors.New("lwio: b\x1b[2J")
	for _, c := range []struct {
		err  error
		want []string
	}{
		{a, []string{"a\\x0ax"}},
		{errors.New("é\xff\ufffd\x9b\u009b"), []string{"é\\xff\ufffd\\x9b\\x9b"}},
		{errors.Join(a, nil, errors.Join(b, a)), []string{"a\\x0ax", "lwio: b\\x1b[2J", "a\\x0ax"}},
		{fmt.Errorf("both %w and %w", a, b), []string{"both a\\x0ax and lwio: b\\x1b[2J"}},
	} {
		var got []string
		for _, m := range messages(c.err) {
			got = append(got, printable(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	s := startServer(t, t.TempDir())
	r := run(t, exitFailure, "rm", s.url+"/one", s.url+"/two")
	if lines := strings.Split(strings.TrimSpace(r.err), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "lwio: remove two") {
		t.Errorf("message %q", r.err)
	}
	r = run(t, exitFailure, "cp", "-r", t.TempDir(), s.url+"/no/dir")
	if strings.Contains(r.err, "rest") || !strings.Contains(r.err, "\nlwio: cp: 0 files") {
		t.Errorf("message of a copy of nothing: %q", r.err)
	}
}

// A read-only share refuses each change.
func TestReadOnlyShareRefusesChanges(t *testing.T) {
	s := startServer(t, t.TempDir(), "--read-only")
	src := write(t, []byte("new"), t.TempDir(), "src")
	for _, args := range [][]string{{"cp", src, s.url + "/x"}, {"mkdir", s.url + "/d"}} {
		if r := run(t, exitFailure, args...); !strings.HasPrefix(r.err, "lwio: ") {
			t.Errorf("message %q", r.err)
		}
	}
	wantNames(t, s.dir)
}

// signalReader ends a context after some bytes, and then has more.
type signalReader struct {
	r    io.Reader
	left int
	once sync.Once
	hit  func()
}

func (r *signalReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.left -= n; r.left < 0 {
		r.once.Do(r.hit)
	}
	return n, err
}

// endless is a source without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// An interrupted copy leaves no file under any name, and a file that had the name before is
// unchanged.
func TestInterruptedCopyLeavesNoFile(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, []byte("before"), s.dir, "dst")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := &signalReader{r: endless{}, left: 4 * chunkSize, hit: cancel}
	r := runCommand(ctx, in, "cp", "-", s.url+"/dst")
	if r.code != exitFailure || !strings.Contains(r.err, "as it was") || strings.Contains(r.err, "level=") {
		t.Errorf("exit status %d, %q", r.code, r.err)
	}
	wantFile(t, filepath.Join(s.dir, "dst"), []byte("before"))
	wantNames(t, s.dir, "dst")
}

// TestWarningsEndWithTheContext logs while a context lives, and not after.
func TestWarningsEndWithTheContext(t *testing.T) {
	var out lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	log := (&app{stderr: &out}).logger(ctx)
	log.Info("one")
	log.Warn("two")
	cancel()
	log.Error("three")
	if got := out.String(); strings.Contains(got, "one") || !strings.Contains(got, "two") || strings.Contains(got, "three") {
		t.Errorf("logged: %s", got)
	}
}

// stoppingTree is the local file system, where a copy is stopped as it reads one
// of its files.
type stoppingTree struct {
	localTree
	left *atomic.Int32
	stop func()
}

func (s stoppingTree) ReadSmall(ctx context.Context, name string, p []byte) (n int, whole bool, err error) {
	if s.left.Add(-1) == 0 {
		s.stop()
	}
	return s.localTree.ReadSmall(ctx, name, p)
}

// An interrupted copy of a directory reports no failure of files that it did not begin, and
// the files that it reports as copied exist.
func TestInterruptedTreeReportsCopiedFiles(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "dst")
	for i := range 100 {
		write(t, []byte("content"), src, fmt.Sprint(i))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var left atomic.Int32
	left.Store(40)
	tree := stoppingTree{left: &left, stop: func() { cancel(errors.New("enough")) }}
	files, _, err := (&copyJob{bar: newProgress(io.Discard)}).directory(ctx, tree, src, localTree{}, dst)
	want := fmt.Sprintf("cp: enough: %d files (%d bytes) copied, 0 failed; the copy was stopped", files, 7*files)
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	entries, err := os.ReadDir(dst)
	if err != nil || int64(len(entries)) != files || files >= 100 {
		t.Errorf("%d files, %d copied, %v", len(entries), files, err)
	}
}

// TestCopyFailsWhenTheServerEnds ends the server in the middle of a copy.
func TestCopyFailsWhenTheServerEnds(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, []byte("before"), s.dir, "dst")
	in := &signalReader{r: endless{}, left: 4 * chunkSize, hit: s.stop}
	r := runCommand(t.Context(), in, "cp", "-", s.url+"/dst")
	if r.code != exitFailure || !strings.Contains(r.err, "as it was") {
		t.Errorf("exit status %d, %q", r.code, r.err)
	}
	s.stop() // the command need not wait for the end of the copy
	wantFile(t, filepath.Join(s.dir, "dst"), []byte("before"))
	wantNames(t, s.dir, "dst")
}

// uncertainTree is the local file system with commits whose outcome is unknown.
type uncertainTree struct{ localTree }

type uncertainFile struct{ pendingFile }

func (d uncertainTree) Create(ctx context.Context, name string) (pendingFile, error) {
	f, err := d.localTree.Create(ctx, name)
	return uncertainFile{f}, err
}

func (d uncertainFile) Commit(ctx context.Context) error {
	return errors.Join(d.pendingFile.Commit(ctx), lwio.ErrUncertain)
}

// TestUnknownCommitPromisesNothing reports an unknown outcome for a destination that may be
// the copy.
func TestUnknownCommitPromisesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, []byte("content"), dir, "src")
	j := &copyJob{bar: newProgress(io.Discard)}
	_, file := j.file(t.Context(), localTree{}, filepath.Join(dir, "src"), uncertainTree{}, filepath.Join(dir, "dst"))
	stream := j.fromStream(t.Context(), strings.NewReader("content"), &location{tree: uncertainTree{}, name: filepath.Join(dir, "dst")})
	for _, err := range []error{file, stream} {
		if !errors.Is(err, lwio.ErrUncertain) || !strings.Contains(err.Error(), "dst is as it was, or the copy)") {
			t.Errorf("the copy ended with %v", err)
		}
	}
}
