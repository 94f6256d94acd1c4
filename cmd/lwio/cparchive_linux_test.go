package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/internal/test/skip"
)

// dataOf returns the ranges of a file that are not holes: offsets of their begins and ends.
func dataOf(t *testing.T, name string) (ranges []int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := int64(0); ; {
		begin, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return ranges
		}
		if err != nil {
			t.Fatal(err)
		}
		if at, err = unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, begin, at)
	}
}

// makeSparse makes a file with holes: at its start, in its first and its second chunk, between chunks, and at its end.
func makeSparse(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range []int64{holeSize, 64 << 10, 100 << 10, 2*chunkSize - holeSize, 2 * chunkSize, 3*chunkSize + 8*holeSize} {
		if _, err := f.WriteAt(randomBytes(holeSize), off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(4*chunkSize + 77); err != nil {
		t.Fatal(err)
	}
	if fi, err := f.Stat(); err != nil || !isSparse(fi) {
		skip.Test(t, "the file system has no holes")
	}
}

// treeTimes are times of a tree, before now and with nanoseconds.
func treeTimes(i int) (accessed, modified time.Time) {
	accessed = time.Date(2019, 3, 4, 5, 6, 7+i, 123456789, time.UTC)
	return accessed, accessed.Add(-time.Duration(i+1) * 1234567891 * time.Nanosecond)
}

// setTreeTimes sets other times for each entry of a tree.
func setTreeTimes(t *testing.T, names ...string) {
	t.Helper()
	for i, name := range names {
		accessed, modified := treeTimes(i)
		if err := os.Chtimes(name, accessed, modified); err != nil {
			t.Fatal(err)
		}
	}
}

// wantTimes checks the times that setTreeTimes has set, in units of 100 ns. Reading may have changed the time of the
// last access only to a later one.
func wantTimes(t *testing.T, names ...string) {
	t.Helper()
	for i, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		accessed, modified := treeTimes(i)
		const unit = 100 * time.Nanosecond
		if !fi.ModTime().Equal(modified) && !fi.ModTime().Equal(modified.Truncate(unit)) {
			t.Errorf("%s: modified %v, want %v", name, fi.ModTime(), modified)
		}
		if got := inodeOf(fi).accessed; got.Before(accessed.Truncate(unit)) {
			t.Errorf("%s: accessed %v, want %v", name, got, accessed)
		}
	}
}

// archiveNames are the names of the tree of the tests of cp -a, the deepest first.
func archiveNames(root string) []string {
	names := []string{"sub/deep/small", "sub/deep/empty", "sub/readonly", "sub/sparse", "sub/sparse small", "large", "sub/deep", "none", "sub", "."}
	for i := range names {
		names[i] = filepath.Join(root, names[i])
	}
	return names
}

// makeArchive makes the tree, with its times.
func makeArchive(t *testing.T, root string) {
	t.Helper()
	write(t, []byte("small"), root, "sub/deep/small")
	write(t, nil, root, "sub/deep/empty")
	write(t, randomBytes(chunkSize+3), root, "large")
	readOnly := write(t, []byte("read only"), root, "sub/readonly")
	makeSparse(t, filepath.Join(root, "sub/sparse"))
	f, err := os.Create(filepath.Join(root, "sub/sparse small"))
	if err == nil {
		_, err = f.WriteAt([]byte("x"), 5*holeSize)
	}
	for _, e := range []error{err, f.Close(), os.Mkdir(filepath.Join(root, "none"), 0o755), os.Chmod(readOnly, 0o444)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	setTreeTimes(t, archiveNames(root)...)
}

// wantArchive checks that two trees have the same content, holes and permissions to write, and the times of the first.
func wantArchive(t *testing.T, from, to string) {
	t.Helper()
	wantTimes(t, archiveNames(to)...)
	copies := archiveNames(to)
	for i, name := range archiveNames(from) {
		a, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Stat(copies[i])
		if err != nil {
			t.Fatal(err)
		}
		if a.IsDir() {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, copies[i], content)
		if (a.Mode()&0o200 != 0) != (b.Mode()&0o200 != 0) {
			t.Errorf("%s: mode %v, of %v", copies[i], b.Mode(), a.Mode())
		}
		if x, y := dataOf(t, name), dataOf(t, copies[i]); !slices.Equal(x, y) {
			t.Errorf("%s: data at %v, want %v", copies[i], y, x)
		}
		if isSparse(a) && b.Sys().(*syscall.Stat_t).Blocks > a.Sys().(*syscall.Stat_t).Blocks {
			t.Errorf("%s takes more space than its source", copies[i])
		}
	}
}

// cp -a keeps times, holes and the permission to write, to a share and back, over each transport.
func TestArchiveKeepsTreeThereAndBack(t *testing.T) {
	for _, provider := range []string{"shm", "iwarp", "smb"} {
		t.Run(provider, func(t *testing.T) {
			s := startServer(t, t.TempDir())
			src, back := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "back")
			makeArchive(t, src)
			setTreeTimes(t, archiveNames(src)...)
			run(t, exitOK, "cp", "-a", src, s.url+"/copy?provider="+provider)
			wantArchive(t, src, filepath.Join(s.dir, "copy"))
			setTreeTimes(t, archiveNames(filepath.Join(s.dir, "copy"))...)
			run(t, exitOK, "cp", "-a", s.url+"/copy?provider="+provider, back)
			wantArchive(t, src, back)
		})
	}
}

// cp -a of one file keeps its attributes, replaces those of the file before, and verifies holes.
func TestArchiveOfOneFile(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := filepath.Join(t.TempDir(), "sparse")
	makeSparse(t, src)
	setTreeTimes(t, src)
	run(t, exitOK, "cp", "-a", "--verify", src, s.url+"/sparse")
	remote := filepath.Join(s.dir, "sparse")
	wantTimes(t, remote)
	setTreeTimes(t, remote)
	local := write(t, []byte("read only"), t.TempDir(), "sparse")
	if err := os.Chmod(local, 0o444); err != nil {
		t.Fatal(err)
	}
	run(t, exitOK, "cp", "-a", "--verify", s.url+"/sparse", local)
	wantTimes(t, local)
	if x, y := dataOf(t, src), dataOf(t, local); !slices.Equal(x, y) {
		t.Errorf("data at %v, want %v", y, x)
	}
	if fi, err := os.Stat(local); err != nil || fi.Mode()&0o200 == 0 {
		t.Error("the copy of a writable file is read-only", err)
	}
	// Without -a the times are new, and holes take space.
	run(t, exitOK, "cp", src, s.url+"/plain")
	if fi, err := os.Stat(filepath.Join(s.dir, "plain")); err != nil || isSparse(fi) || time.Since(fi.ModTime()) > 24*time.Hour {
		t.Error("cp without -a keeps holes or times", err)
	}
}

// Names of one file of a share become links. Names of one local file become files on a share.
func TestArchiveKeepsLinksOfShare(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := t.TempDir()
	first := write(t, []byte("one"), src, "d/a")
	write(t, []byte("another"), src, "d/other")
	for _, name := range []string{"d/b", "z"} {
		if err := os.Link(first, filepath.Join(src, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, exitOK, "cp", "-a", filepath.Join(src, "d"), s.url+"/up")
	if !strings.Contains(r.err, "1 names of files with several names are files of their own") {
		t.Errorf("cp -a says %q", r.err)
	}
	wantFile(t, filepath.Join(s.dir, "up/b"), []byte("one"))

	if err := os.CopyFS(filepath.Join(s.dir, "down"), os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/b", "z"} {
		if err := os.Remove(filepath.Join(s.dir, "down", name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(s.dir, "down/d/a"), filepath.Join(s.dir, "down", name)); err != nil {
			t.Fatal(err)
		}
	}
	back := filepath.Join(t.TempDir(), "back")
	write(t, []byte("in the way"), back, "down/z")
	for range 2 { // the second time the links are there
		run(t, exitOK, "cp", "-a", s.url+"/down", back)
		a := filepath.Join(back, "down/d/a")
		wantFile(t, a, []byte("one"))
		for _, name := range []string{"d/b", "z"} {
			if !sameFile(t, a, filepath.Join(back, "down", name)) {
				t.Errorf("%s is a file of its own", name)
			}
		}
		if sameFile(t, a, filepath.Join(back, "down/d/other")) {
			t.Error("another file became a link")
		}
		wantNames(t, filepath.Join(back, "down"), "d", "z")
	}
}

// Symbolic links and pipes are named, and everything else is copied.
func TestArchiveRefusesLinksAndPipes(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := t.TempDir()
	write(t, []byte("content"), src, "file")
	if err := os.Chmod(filepath.Join(src, "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(src, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, exitFailure, "cp", "-a", src, s.url+"/copy")
	for _, want := range []string{
		"cp " + filepath.Join(src, "link") + ": not copied: a share holds no symbolic links",
		"cp " + filepath.Join(src, "pipe") + ": not copied: a share holds files and directories only",
		"1 files lose their permission to execute", "1 files (7 bytes) copied, 2 failed",
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q lacks %q", r.err, want)
		}
	}
	wantNames(t, filepath.Join(s.dir, "copy"), "file")
	if r := run(t, exitFailure, "cp", "-a", filepath.Join(src, "link"), s.url+"/l"); !strings.Contains(r.err, "no symbolic links") {
		t.Errorf("cp -a of a link says %q", r.err)
	}
	if r := run(t, exitFailure, "cp", "-a", s.url+"/copy/file", os.DevNull); !strings.Contains(r.err, "times of the device") {
		t.Errorf("cp -a to a device says %q", r.err)
	}
	for _, args := range [][]string{{"cp", "-a", "-", s.url + "/x"}, {"cp", "-a", s.url + "/copy/file", "-"}} {
		run(t, exitUsage, args...)
	}
}

// No byte is lost between holes.
func TestNextData(t *testing.T) {
	for _, c := range []struct {
		pattern string // one letter for each block, the last one shorter: d is data
		want    []int  // blocks of begins and ends
	}{
		{"", nil}, {"d", []int{0, 1}}, {".", nil}, {".d", []int{1, 2}}, {"d.", []int{0, 1}}, {"dd..d.dd", []int{0, 2, 4, 5, 6, 8}},
	} {
		p := make([]byte, max(0, len(c.pattern)*holeSize-100))
		for i, kind := range c.pattern {
			if kind == 'd' {
				p[min((i+1)*holeSize, len(p))-1] = 1
			}
		}
		var got []int
		for at := 0; at < len(p); {
			begin, end := nextData(p, at)
			if begin == end {
				break
			}
			got = append(got, begin/holeSize, (end+holeSize-1)/holeSize)
			at = end
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.pattern, got, c.want)
		}
		var dst memSink
		dst.failAt, dst.b = -1, make([]byte, len(p))
		if err := (sparseSink{&dst}).WriteChunk(t.Context(), p, 0); err != nil || !bytes.Equal(dst.b, p) {
			t.Errorf("%q: the copy differs: %v", c.pattern, err)
		}
	}
}

// sameFile reports whether two names stand for one file.
func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	var infos [2]fs.FileInfo
	for i, name := range []string{a, b} {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		infos[i] = fi
	}
	return os.SameFile(infos[0], infos[1])
}

// A copy replaces files that are read-only, small and large ones, to a share and back. With -a the copies are read-only
// like their sources.
func TestCopyReplacesReadOnlyFiles(t *testing.T) {
	s := startServer(t, t.TempDir())
	src, back := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	files := map[string]int{"small": 100, "large": smallSize + 100}
	for _, flag := range []string{"-r", "-a", "-a", "-r"} {
		content := make(map[string][]byte)
		for name, size := range files {
			if err := os.RemoveAll(filepath.Join(src, name)); err != nil {
				t.Fatal(err)
			}
			content[name] = randomBytes(size)
			if err := os.Chmod(write(t, content[name], src, name), 0o444); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			run(t, exitOK, "cp", flag, src, s.url+"/")
			run(t, exitOK, "cp", flag, s.url+"/tree", back)
			for name := range files {
				for _, dir := range []string{filepath.Join(s.dir, "tree"), filepath.Join(back, "tree")} {
					if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || flag == "-a" && fi.Mode()&0o222 != 0 {
						t.Errorf("%s: %v, %v", flag, fi.Mode(), err)
					}
					wantFile(t, filepath.Join(dir, name), content[name])
				}
			}
			if flag == "-r" { // the files of the share are new ones
				for name := range files {
					if err := os.Chmod(filepath.Join(s.dir, "tree", name), 0o444); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		wantNames(t, filepath.Join(s.dir, "tree"), "large", "small")
	}
}
