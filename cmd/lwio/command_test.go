package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio"
	"lwio/internal/test/skip"
)

func TestCommandsOverTransports(t *testing.T) {
	for _, transport := range []string{"iwarp", "smb"} {
		t.Run(transport, func(t *testing.T) {
			s := startServer(t, t.TempDir())
			u := func(name string) string { return s.url + "/" + name + "?provider=" + transport }
			local := t.TempDir()
			content := randomBytes(2*chunkSize + 333)
			src := write(t, content, local, "a file")

			run(t, exitOK, "mkdir", u("sub"))
			run(t, exitOK, "mkdir", "-p", u("deep/er/still"))
			run(t, exitOK, "cp", "--verify", src, u("sub"))
			wantFile(t, filepath.Join(s.dir, "sub", "a file"), content)
			run(t, exitOK, "cp", "--verify", u("sub/a%20file"), filepath.Join(local, "back"))
			wantFile(t, filepath.Join(local, "back"), content)
			run(t, exitOK, "cp", u("sub/a file"), filepath.Join(local, "again"))
			wantFile(t, filepath.Join(local, "again"), content)
			if r := run(t, exitOK, "cat", u("sub/a file")); r.out != string(content) {
				t.Errorf("cat printed %d bytes", len(r.out))
			}
			if r := run(t, exitOK, "ls", u("")); r.out != "deep/\nsub/\n" {
				t.Errorf("ls printed %q", r.out)
			}
			if r := run(t, exitOK, "ls", u("sub"), u("deep")); !strings.Contains(r.out, "/data/sub:\na file\n") || !strings.Contains(r.out, "/data/deep:\ner/\n") {
				t.Errorf("ls of two directories printed %q", r.out)
			}
			if r := run(t, exitOK, "ls", "-l", "--json", u("sub")); !strings.Contains(r.out, `"name": "a file"`) {
				t.Errorf("ls --json printed %s", r.out)
			}
			if r := run(t, exitOK, "stat", u("sub/a file")); !strings.Contains(r.out, "size: 4194637") {
				t.Errorf("stat printed %s", r.out)
			}
			run(t, exitOK, "mv", u("sub/a file"), u("deep"))
			wantNames(t, filepath.Join(s.dir, "deep"), "a file", "er")
			run(t, exitOK, "rm", u("deep/a file"))
			run(t, exitFailure, "rm", u("deep"))
			run(t, exitOK, "rm", "-r", u("deep"))
			wantNames(t, s.dir, "sub")
		})
	}
}

// A copy to another spelling of its own host is a copy within one share.
func TestSameShareIgnoresCase(t *testing.T) {
	at := func(url string) *location {
		parsed, err := lwio.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		return &location{target: parsed}
	}
	for url, want := range map[string]bool{
		"lwio://FILES.example/Data/x": true, "lwio://files.example:4450/data": true,
		"lwio://files.example:4451/data": false, "lwio://files.example/other": false, "lwio://other.example/data": false,
	} {
		if got := sameShare(at("lwio://files.example/data/a"), at(url)); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}

// TestCopyRefusesImpossibleDestinations copies to destinations that are impossible or
// refused.
func TestCopyRefusesImpossibleDestinations(t *testing.T) {
	s := startServer(t, t.TempDir())
	local := t.TempDir()
	src := write(t, []byte("content"), local, "src")
	write(t, []byte("content"), s.dir, "dir", "sub", "file")
	slash := string(filepath.Separator)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{src, s.url + "/new/"}, "new/: no such directory"},
		{[]string{src, s.url + "/dir/sub/file/?provider=smb"}, "no such directory"},
		{[]string{s.url + "/dir/sub/file", filepath.Join(local, "new") + slash}, "no such directory"},
		{[]string{"-", s.url + "/new/"}, "is a directory"},
		{[]string{"-r", s.url + "/dir", s.url + "/dir/copy"}, "into itself"},
		{[]string{"-r", s.url + "/dir/", s.url}, "are the same"},
		{[]string{s.url + "/dir/sub/file", s.url + "/dir/sub"}, "are the same"},
		{[]string{"-r", s.url + "/dir", s.url + "/dir/sub"}, "into itself"},
		{[]string{"-r", s.url, s.url + "/copy"}, "into itself"},
	} {
		if r := run(t, exitFailure, append([]string{"cp"}, c.args...)...); !strings.Contains(r.err, c.want) {
			t.Errorf("cp %s: %q", strings.Join(c.args, " "), r.err)
		}
	}
	wantNames(t, local, "src")
	wantNames(t, s.dir, "dir")
	wantNames(t, filepath.Join(s.dir, "dir"), "sub")
	run(t, exitOK, "cp", "-r", s.url+"/dir", s.url+"/dir2")
	run(t, exitOK, "cp", src, s.url+"/dir2/")
	wantNames(t, filepath.Join(s.dir, "dir2"), "src", "sub")

	// A source such as ".." has no name for its copy.
	if err := os.Mkdir(filepath.Join(local, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(local, "sub"))
	run(t, exitOK, "cp", "-r", "..", s.url+"/dir/sub")
	wantNames(t, filepath.Join(s.dir, "dir"), "sub")
	wantNames(t, filepath.Join(s.dir, "dir", "sub"), "file", "src", "sub")
}

// TestCopyOfLongNames copies files whose names are as long as a name may be.
func TestCopyOfLongNames(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, name := range []string{strings.Repeat("n", 255), "x" + strings.Repeat("\u00e9", 127), strings.Repeat("\U0001f600", 63)} {
		local := t.TempDir()
		write(t, []byte(name), s.dir, name)
		run(t, exitOK, "cp", "--verify", s.url+"/"+name, local)
		wantNames(t, local, name)
		wantFile(t, filepath.Join(local, name), []byte(name))
	}
}

// TestRemoveTreeStaysInside removes a directory with links to other directories, which do
// not change. It fails to remove the share itself before it removes any file.
func TestRemoveTreeStaysInside(t *testing.T) {
	s := startServer(t, t.TempDir())
	kept := write(t, []byte("precious"), s.dir, "kept", "file")
	write(t, nil, s.dir, "dir", "sub", "file")
	for link, target := range map[string]string{"dir/link": "../kept", "dir/sub/link": "../../kept", "link": "kept"} {
		if err := os.Symlink(target, filepath.Join(s.dir, filepath.FromSlash(link))); err != nil {
			skip.Test(t, "no symbolic links here", err)
		}
	}
	run(t, exitOK, "rm", "-r", s.url+"/dir")
	run(t, exitOK, "rm", "-r", s.url+"/link")
	wantNames(t, s.dir, "kept")
	wantFile(t, kept, []byte("precious"))
	run(t, exitFailure, "rm", "-r", s.url)
	wantFile(t, kept, []byte("precious"))
}

func TestCopyOfStandardStreams(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := randomBytes(3*chunkSize + 1)
	r := runCommand(t.Context(), bytes.NewReader(content), "cp", "--verify", "-", s.url+"/in")
	if r.code != exitOK {
		t.Fatal(r)
	}
	wantFile(t, filepath.Join(s.dir, "in"), content)
	if r := run(t, exitOK, "cp", s.url+"/in", "-"); r.out != string(content) {
		t.Errorf("%d bytes came out", len(r.out))
	}
	wantNames(t, s.dir, "in")
}

// TestCopyTreeIntoItself copies directories into themselves, with a URL on one side and a
// path on the other. The command cannot notice that, and must end.
func TestCopyTreeIntoItself(t *testing.T) {
	s := startServer(t, t.TempDir())
	data := randomBytes(1000)
	write(t, data, s.dir, "sub", "file")
	run(t, exitOK, "cp", "-r", s.url, filepath.Join(s.dir, "down"))
	run(t, exitOK, "cp", "-r", filepath.Join(s.dir, "sub"), s.url+"/sub/up")
	for _, copied := range []string{"down/sub/file", "sub/up/file"} {
		if got, err := os.ReadFile(filepath.Join(s.dir, copied)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", copied, len(got), err)
		}
	}
	for _, again := range []string{"down/down", "sub/up/up"} {
		if _, err := os.Stat(filepath.Join(s.dir, again)); err == nil {
			t.Errorf("%s: copied over and over", again)
		}
	}
}

func TestCopyTreeThereAndBack(t *testing.T) {
	s := startServer(t, t.TempDir())
	src, back := t.TempDir(), t.TempDir()
	files := map[string][]byte{
		"empty": {}, "one": {1}, "dir/two": randomBytes(5000), "dir/dir/big": randomBytes(chunkSize + 9),
		"dir/ümlaut and space": randomBytes(77),
	}
	for name, content := range files {
		write(t, content, src, filepath.FromSlash(name))
	}
	if err := os.Mkdir(filepath.Join(src, "bare"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("one", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	r := run(t, exitOK, "cp", "-r", "--verify", src, s.url+"/tree")
	if !strings.Contains(r.err, "link: skipped") {
		t.Errorf("nothing is said of the symbolic link: %q", r.err)
	}
	run(t, exitOK, "cp", "-r", "--verify", s.url+"/tree", filepath.Join(back, "tree"))
	for name, content := range files {
		wantFile(t, filepath.Join(back, "tree", filepath.FromSlash(name)), content)
	}
	wantNames(t, filepath.Join(back, "tree"), "bare", "dir", "empty", "one")
	run(t, exitOK, "cp", "-r", s.url, back) // a whole share, into a directory
	run(t, exitFailure, "cp", s.url+"/tree", back)
}

// grownTree is the local file system, whose files grow after their directory was listed.
type grownTree struct {
	localTree
	grow func()
}

func (g grownTree) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := g.localTree.ReadDir(ctx, name)
	for i, e := range list {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list[i] = fs.FileInfoToDirEntry(info)
	}
	g.grow()
	return list, err
}

// Files of a directory around the largest size that is copied in one piece arrive whole, also those that have
// grown since the directory was listed.
func TestSmallFilesOfTreeArriveWhole(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, by := range []int{0, 1, smallSize} {
		src, back := t.TempDir(), filepath.Join(t.TempDir(), "back")
		files := make(map[string][]byte)
		for _, size := range []int{0, 1, 4096, smallSize - 1, smallSize, smallSize + 1} {
			content := randomBytes(size + by)
			write(t, content[:size], src, fmt.Sprint(size))
			files[fmt.Sprint(size)] = content
		}
		tree := grownTree{grow: func() {
			for name, content := range files {
				write(t, content, src, name)
			}
		}}
		c, err := lwio.Dial(t.Context(), s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		to := remoteTree{c: c, t: &lwio.Target{Host: "host", Share: "share"}}
		dir := fmt.Sprint("by", by)
		n, _, err := (&copyJob{bar: newProgress(io.Discard)}).directory(t.Context(), tree, src, to, dir)
		if err != nil || n != int64(len(files)) {
			t.Errorf("%d files, %v", n, err)
		}
		run(t, exitOK, "cp", "-r", s.url+"/"+dir, back)
		for name, content := range files {
			wantFile(t, filepath.Join(s.dir, dir, name), content)
			wantFile(t, filepath.Join(back, name), content)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	run(t, exitOK, "rm", "-r", s.url+"/by0", s.url+"/by1", fmt.Sprint(s.url, "/by", smallSize))
	wantNames(t, s.dir)
}

// A small file that the destination refuses is named with its reason, and the others are copied.
func TestRefusedSmallFileIsReported(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, []byte("content"), src, name)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "d", filepath.Base(src), "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, exitFailure, "cp", "-r", src, s.url+"/d")
	for _, want := range []string{"cp " + filepath.Join(src, "b"), "is a directory", "as it was", "2 files (14 bytes) copied, 1 failed"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q lacks %q", r.err, want)
		}
	}
	wantNames(t, filepath.Join(s.dir, "d", filepath.Base(src)), "a", "b", "c")
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"frobnicate"},
		{"cp", "a"},
		{"cp", "a", "b"},
		{"cp", "", "lwio://u:p@h/s/b"},
		{"cp", "--no-such-flag", "a", "lwio://u:p@h/s/b"},
		{"cp", "--verify", "lwio://u:p@h/s/b", "-"},
		{"ls"},
		{"ls", "/not/a/url"},
		{"ls", "lwio://u:p@h"},
		{"ls", "lwio://:p@127.0.0.1:1/share"},
		{"ls", "lwio://u@127.0.0.1:1/share"},
		{"ls", "--timeout", "0", "lwio://u:p@127.0.0.1:1/share"},
		{"ls", "--timeout", "-1s", "lwio://u:p@127.0.0.1:1/share"},
		{"ls", "--timeout", "soon", "lwio://u:p@127.0.0.1:1/share"},
		{"serve"},
		{"serve", "--listen", "0.0.0.0:0", "."},
		{"serve", "--listen", "127.0.0.1:0", "--provider", "carrier-pigeon", "."},
		{"serve", "--metrics", "foo", "."},
		{"serve", "x=.", "X=."},
		{"serve", "--provider", "iwarp,iwarp", "."},
		{"serve", "--byte-burst", "1m", "."},
		{"serve", "--byte-rate", "1k", "."},
		{"serve", "--request-rate", "99", "."},
		{"version", "extra"},
	} {
		r := runCommand(t.Context(), strings.NewReader(""), args...)
		if r.code != exitUsage || !strings.HasPrefix(r.err, "lwio: ") {
			t.Errorf("lwio %s: exit status %d, %q", strings.Join(args, " "), r.code, r.err)
		}
	}
}

// TestPasswordsAreNotPrinted uses URLs with several mistakes.
func TestPasswordsAreNotPrinted(t *testing.T) {
	for _, url := range []string{
		"LWIO://u:hidden@127.0.0.1:1/share", "http://u:hidden@127.0.0.1:1/share", "lwio:/u:hidden@127.0.0.1:1/share",
		"lwio://u:hidden@127.0.0.1:x/share", "lwio://u:hid%den@127.0.0.1:1/share", "lwio://u:hidden@127.0.0.1:1",
	} {
		for _, verb := range []string{"ls", "cat", "rm", "mkdir", "stat"} {
			r := runCommand(t.Context(), strings.NewReader(""), verb, url)
			if r.code == exitOK || strings.Contains(r.err, "hidden") || strings.Contains(r.err, "hid%den") {
				t.Errorf("lwio %s %s: exit status %d, %q", verb, url, r.code, r.err)
			}
		}
	}
	s := startServer(t, t.TempDir())
	run(t, exitOK, "ls", "LWIO"+strings.TrimPrefix(s.url, "lwio"))
}

func TestMoveBetweenShares(t *testing.T) {
	s := startServer(t, t.TempDir())
	run(t, exitUsage, "mv", s.url+"/a", strings.Replace(s.url, "/data", "/other", 1)+"/a")
}

func TestVersionAndProvidersPrint(t *testing.T) {
	if r := run(t, exitOK, "version"); !strings.Contains(r.out, "0x1001") {
		t.Errorf("version printed %q", r.out)
	}
	if r := run(t, exitOK, "providers"); !strings.Contains(r.out, "iwarp") {
		t.Errorf("providers printed %q", r.out)
	}
	if r := run(t, exitOK, "providers", "--json"); !strings.Contains(r.out, `"name": "iwarp"`) {
		t.Errorf("providers --json printed %q", r.out)
	}
	if r := run(t, exitOK, []string{}...); !strings.Contains(r.out, "Usage:") {
		t.Errorf("lwio alone printed %q", r.out)
	}
}
