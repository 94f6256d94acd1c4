package vfs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"lwio/internal/leakcheck"
	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// residentAtOnce makes each part of a file resident that is read once.
func residentAtOnce(c *vfs.Config) { c.ResidentMemory, c.ResidentReads = 64<<20, 1 }

// residentSite is a site whose files can be kept in memory.
func residentSite(t testing.TB) *site {
	t.Helper()
	s := newSite(t, residentAtOnce)
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC && st.Type != unix.BTRFS_SUPER_MAGIC && st.Type != unix.TMPFS_MAGIC {
		t.Skipf("the scratch directory is on a file system (%#x) that is not mapped", st.Type)
	}
	return s
}

// warm reads the first byte of an open file until it is resident.
func (s *site) warm(o *vfs.Open) {
	s.t.Helper()
	for was := s.Stats().Resident.Reads; s.Stats().Resident.Reads == was; runtime.Gosched() {
		if _, _, err := o.ReadCached(make([]byte, 1), 0); err != nil {
			s.t.Fatal(err)
		}
		if s.Stats().Resident.Refused > 0 {
			s.t.Skip("this process may lock too little memory")
		}
	}
}

// reads checks what ReadCached, and ReadAt where that cannot tell, have of a file.
func reads(t testing.TB, o *vfs.Open, off int64, want string) {
	t.Helper()
	p := make([]byte, len(want))
	n, ok, err := o.ReadCached(p, off)
	if !ok {
		n, err = o.ReadAt(p, off)
	}
	if string(p[:n]) != want || err != nil {
		t.Errorf("at %d: %q, %v, want %q", off, p[:n], err, want)
	}
}

// What is resident follows the file, whoever changes it, and not its name.
//
// Source: [LWIO §Read] [OP-92a]
func TestResident(t *testing.T) {
	s := residentSite(t)
	s.put("file", "other")
	o, second := s.mustOpen("file"), s.mustOpen("file")
	defer closed(t, o)
	held(t, o, func() {
		s.warm(o)
		before := s.Stats().Resident.Reads
		if b := o.Resident(3, 4); string(b) != "tent" {
			t.Errorf("resident: %q", b)
		}
		if o.CountResident(3); s.Stats().Resident.Reads != before+3 {
			t.Errorf("%d reads of what is resident after %d and 3", s.Stats().Resident.Reads, before)
		}
		held(t, second, func() {
			if b := second.Resident(0, 7); string(b) != "content" {
				t.Errorf("to another open: %q", b)
			}
			if _, err := second.WriteAt([]byte("CONTENT of file, and more"), 0); err != nil {
				t.Fatal(err)
			}
		})
		closed(t, second)
		reads(t, o, 0, "CONTENT of file, and more")
		if err := os.Rename(s.host("other"), s.host("file")); err != nil {
			t.Fatal(err)
		}
		reads(t, o, 0, "CONTENT")
		if err := o.Truncate(9); err != nil {
			t.Fatal(err)
		}
		reads(t, o, 8, "o")
		if n, ok, err := o.ReadCached(make([]byte, 9), 4); n != 5 || !ok || err != nil || o.Resident(4, 9) != nil {
			t.Errorf("over the end: %d, %v, %v", n, ok, err)
		}
		_, _, err := o.ReadCached(make([]byte, 9), 9)
		wantStatus(t, "behind the end", err, ntstatus.EndOfFile)
	})
	if o.Resident(0, 1) != nil {
		t.Error("without a reference")
	}
	if now := s.Stats().Resident; now.Promotions != 1 || now.Reads < 4 || now.Bytes == 0 || now.MaxBytes != 64<<20 {
		t.Errorf("%+v", now)
	}
	another := s.mustOpen("file")
	defer closed(t, another)
	held(t, another, func() { reads(t, another, 0, "content of other") })
}

// Locks and rights hold for what is resident too.
//
// Source: [MS-FSA 2.1.5.3] [OP-57]
func TestResidentIsRefused(t *testing.T) {
	s := residentSite(t)
	s.put("file")
	o, keeper, blind := s.mustOpen("file"), s.mustOpen("file"), s.mustOpen("file", access(vfs.WriteData))
	defer closed(t, o, keeper, blind)
	held(t, o, func() {
		s.warm(o)
		if err := keeper.TryLock(vfs.Lock{Range: vfs.Range{Off: 2, Len: 1}, Exclusive: true}); err != nil {
			t.Fatal(err)
		}
		_, _, err := o.ReadCached(make([]byte, 3), 0)
		wantStatus(t, "read what is locked", err, ntstatus.FileLockConflict)
		reads(t, o, 0, "co")
	})
	held(t, blind, func() {
		_, _, err := blind.ReadCached(make([]byte, 1), 0)
		wantStatus(t, "read what may be written only", err, ntstatus.AccessDenied)
		if blind.Resident(0, 1) != nil {
			t.Error("bytes for who may not read")
		}
	})
}

// A file is closed, by one of those who have it open or by all, while it is read.
func TestResidentWhileClosed(t *testing.T) {
	s := residentSite(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	if err := os.WriteFile(s.host("file"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		opens := []*vfs.Open{s.mustOpen("file"), s.mustOpen("file")}
		var readers sync.WaitGroup
		for _, o := range opens {
			readers.Go(func() {
				p := make([]byte, 1<<10)
				for i := 0; o.Acquire() == nil; i++ {
					off := int64(i) % 15 << 10
					if n, ok, err := o.ReadCached(p, off); err != nil || ok && !bytes.Equal(p[:n], content[off:off+1<<10]) {
						t.Errorf("at %d: %d, %v, %v", off, n, ok, err)
					}
					o.Release()
				}
			})
		}
		held(t, opens[0], func() { s.warm(opens[0]) })
		closed(t, opens...)
		readers.Wait()
	}
	if got := s.Stats().Resident; got.Bytes != int64(len(content)) || got.Promotions != 1 {
		t.Errorf("it is hot still: %+v", got)
	}
	closed(t, s.mustOpen("file", options(vfs.DeleteOnClose)))
	if got := s.Stats().Resident; got.Bytes != 0 || got.Demotions != 1 {
		t.Errorf("it is deleted: %+v", got)
	}
}

// Random reads, writes and changes of size by several opens: whatever is resident, reads are
// those of a file on disk.
//
// Source: [LWIO §Read] [OP-92a]
func TestResidentModel(t *testing.T) {
	leakcheck.Check(t)
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Int64Range(-1, 5<<20).Draw(t, "budget")
		f, dir := modelShare(t, base, vfs.Config{ResidentMemory: budget, ResidentReads: 1})
		var opens []*vfs.Open
		defer func() { f.CloseAll(opens...) }()
		open := func(t *rapid.T) {
			o, _, err := f.Open(vfs.OpenRequest{Share: "x", Path: "f", Access: everything, ShareMode: vfs.ShareAll, Disposition: vfs.OpenIf, Owner: "alice"})
			if err != nil {
				t.Fatal(err)
			}
			opens = append(opens, o)
		}
		open(t)
		some := func(t *rapid.T) (*vfs.Open, int64) {
			edge := rapid.SampledFrom([]int64{4 << 10, 2 << 20, 4 << 20}).Draw(t, "edge")
			return rapid.SampledFrom(opens).Draw(t, "open"), edge + rapid.Int64Range(-4<<10, 4<<10).Draw(t, "off")
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": open,
			"close": func(t *rapid.T) {
				o, _ := some(t)
				f.CloseAll(o)
				if opens = without(opens, o); len(opens) == 0 {
					open(t)
				}
			},
			"write": func(t *rapid.T) {
				o, off := some(t)
				use(t, o, func() error { _, err := o.WriteAt(pattern(t), off); return err })
			},
			"cut": func(t *rapid.T) {
				o, off := some(t)
				use(t, o, func() error { return o.Truncate(off) })
			},
			"read": func(t *rapid.T) {
				o, off := some(t)
				n := rapid.IntRange(1, 16<<10).Draw(t, "n")
				use(t, o, func() error { return sameAsDisk(t, o, filepath.Join(dir, "f"), off, n) })
			},
		})
		if s := f.Stats().Resident; budget != 0 && s.Bytes > max(budget, 0) || budget < 0 && s.Promotions > 0 {
			t.Fatalf("%+v, of %d", s, budget)
		}
	})
}

// pattern is something to write.
func pattern(t *rapid.T) []byte {
	return bytes.Repeat([]byte{rapid.Byte().Draw(t, "data")}, rapid.IntRange(1, 16<<10).Draw(t, "n"))
}

// without is the list without one of it.
func without(opens []*vfs.Open, o *vfs.Open) (rest []*vfs.Open) {
	for _, other := range opens {
		if other != o {
			rest = append(rest, other)
		}
	}
	return rest
}

// use calls f with a reference.
func use(t *rapid.T, o *vfs.Open, f func() error) {
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer o.Release()
	if err := f(); err != nil {
		t.Fatal(err)
	}
}

// sameAsDisk reads a few times, as the first may make it resident, and compares.
func sameAsDisk(t *rapid.T, o *vfs.Open, path string, off int64, n int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	want, p := make([]byte, n), make([]byte, n)
	m, _ := f.ReadAt(want, off)
	for range 3 {
		got, ok, err := o.ReadCached(p, off)
		if ntstatus.Of(err) == ntstatus.EndOfFile {
			err = nil
		}
		if err != nil || !bytes.Equal(p[:got], want[:min(m, got)]) || ok && got != m {
			t.Fatalf("%d bytes at %d: %d, %v, %v, want %d", n, off, got, ok, err, m)
		}
		if b := o.Resident(off, n); b != nil && !bytes.Equal(b, want[:m]) {
			t.Fatalf("%d bytes at %d: another %d are resident", n, off, len(b))
		}
		runtime.Gosched()
	}
	return nil
}
