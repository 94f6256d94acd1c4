package statefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childDir is the environment variable with the directory of TestProcessThatWritesUntilKilled.
const childDir = "LWIO_TEST_STATE_DIR"

// TestProcessThatWritesUntilKilled is the process that TestKillLosesNoAcceptedBatch kills.
func TestProcessThatWritesUntilKilled(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return // no test by itself
	}
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := uint64(0)
	err = l.Each(func(k Key, _ []byte) error {
		first = max(first, k.Item+1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := first; ; i++ {
		var b Batch
		b.Put(Key{i % 10, i}, binary.LittleEndian.AppendUint64(nil, i))
		if i >= 500 {
			b.Delete(Key{(i - 500) % 10, i - 500})
		}
		if err := l.Apply(&b); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("accepted %d\n", i)
	}
}

// A process that is killed at a random moment loses no batch that it has accepted.
func TestKillLosesNoAcceptedBatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	next := uint64(0)
	for round := range 20 {
		last := killed(t, dir, time.Duration(round)*700*time.Microsecond)
		l, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		found := map[uint64]bool{}
		err = l.Each(func(k Key, value []byte) error {
			if k.Group != k.Item%10 || binary.LittleEndian.Uint64(value) != k.Item {
				return fmt.Errorf("record %v has value %x", k, value)
			}
			found[k.Item] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		next = max(next, last+1)
		if found[next] {
			next++ // written, but not reported
		}
		for i := range next {
			if found[i] != (i+500 >= next) {
				t.Fatalf("round %d, %d batches: record %d is there: %v", round, next, i, found[i])
			}
		}
		if len(found) > 500 {
			t.Fatalf("round %d: %d records", round, len(found))
		}
	}
}

// killed runs TestProcessThatWritesUntilKilled, kills it after its first batch and a delay, and returns the last number that it
// has reported.
func killed(t *testing.T, dir string, delay time.Duration) (last uint64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestProcessThatWritesUntilKilled$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	reported := false
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "accepted ")
		if !ok {
			t.Errorf("the process says %q", lines.Text())
			continue
		}
		if last, err = strconv.ParseUint(text, 10, 64); err != nil {
			continue // the kill has cut the line
		}
		if !reported {
			reported = true
			time.AfterFunc(delay, func() { _ = child.Process.Kill() })
		}
	}
	if err := child.Wait(); err == nil || !reported {
		t.Fatalf("the process ended by itself: %v", err)
	}
	return last
}

// One process has a directory at a time, and a second one gets an error.
func TestDirectoryIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	var b Batch
	b.Put(Key{1, 1}, nil)
	if err := l.Apply(&b); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("applied after Close: %v", err)
	}
	if err := l.Drop(1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("dropped after Close: %v", err)
	}
	if l, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// The directory and its files are for their owner only.
func TestDirectoryIsPrivate(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{".": 0o700, "lock": 0o600, "boot": 0o600, "log.1": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
	for _, mode := range []fs.FileMode{0o750, 0o702, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil {
		t.Error("a file was opened as a directory")
	}
}

// A full file system is the error of the batch that meets it, and the log goes on when there is space.
func TestFullFileSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	signal.Ignore(unix.SIGXFSZ) // which comes with the error
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 3 << 19, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for err == nil {
		var b Batch
		b.Put(Key{1, uint64(accepted)}, make([]byte, 10_000))
		if err = l.Apply(&b); err == nil {
			accepted++
		}
	}
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EFBIG) || accepted < 100 {
		t.Errorf("after %d batches: %v", accepted, err)
	}
	var b Batch
	b.Put(Key{2, 1}, nil)
	if err := l.Apply(&b); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := contents(l); err != nil || len(got) != accepted+1 {
		t.Errorf("%d records of %d: %v", len(got), accepted+1, err)
	}
}

// A file that becomes shorter under its mapping is an error of each later batch, and no end of the process.
func TestStoreBehindTheEndOfTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var b Batch
	b.Put(Key{1, 1}, []byte("value"))
	if err := l.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "log.1"), 0); err != nil {
		t.Fatal(err)
	}
	var damage *CorruptError
	if err := l.Apply(&b); !errors.Is(err, unix.EIO) || !Broken(err) {
		t.Errorf("the first batch: %v", err)
	}
	if err := l.Apply(&b); !errors.As(err, &damage) {
		t.Errorf("the next batch: %v", err)
	}
}
