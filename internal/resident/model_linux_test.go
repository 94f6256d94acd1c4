package resident

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// kept is a file of the model, and its views.
type kept struct {
	f     *os.File
	key   Key
	views []*View
}

// keeping is a cache and its files; what pread says is true.
type keeping struct {
	c      *Cache
	budget int64
	locked int64 // by others
	files  []*kept
	t      testing.TB
}

// Random reads, writes, cuts, holes, promotions and sweeps of files: what the cache gives is
// what pread does, it never has more than its budget, and it knows what is locked.
func TestModel(t *testing.T) {
	dir := diskDir(t)
	locked := lockedMemory(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &keeping{budget: rapid.Int64Range(1, 4*ChunkSize).Draw(rt, "budget"), locked: locked, t: t}
		m.c = New(Config{Budget: m.budget})
		defer m.end(rt)
		for i := range 2 {
			f, err := os.Create(filepath.Join(dir, string(rune('a'+i))))
			if err != nil {
				rt.Fatal(err)
			}
			k := &kept{f: f, key: Key{Number: uint64(i)}}
			m.files = append(m.files, k)
			m.open(k)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"read": m.read, "write": m.write, "cut": m.cut, "punch": m.punch,
			"promote": m.promote, "sweep": func(*rapid.T) { m.c.sweep(); m.c.bury() }, "views": m.views, "": m.agree,
		})
	})
}

func (m *keeping) open(k *kept) {
	v := m.c.Open(k.key, k.f)
	k.views = append(k.views, &v)
}

// place is a file and an offset in it, near the edges of chunks and segments more often.
func (m *keeping) place(t *rapid.T) (*kept, int64) {
	k := m.files[rapid.IntRange(0, len(m.files)-1).Draw(t, "file")]
	edge := rapid.SampledFrom([]int64{0, page, ChunkSize, 2 * ChunkSize, segmentSize - ChunkSize, segmentSize}).Draw(t, "edge")
	return k, max(0, edge+rapid.Int64Range(-3*page, 3*page).Draw(t, "off"))
}

func (m *keeping) read(t *rapid.T) {
	k, off := m.place(t)
	n := rapid.SampledFrom([]int{1, 100, page, 2*page + 5, MaxRead}).Draw(t, "n")
	want := make([]byte, n)
	got, err := k.f.ReadAt(want, off)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	b, p := k.views[0].Bytes(off, n), make([]byte, n)
	if b != nil && (got < n || !Copy(p, b) || !bytes.Equal(p, want)) {
		t.Fatalf("%d bytes at %d: not what the %d bytes of pread are", n, off, got)
	}
}

func (m *keeping) write(t *rapid.T) {
	k, off := m.place(t)
	data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "data")}, rapid.IntRange(1, 4*page).Draw(t, "n"))
	if _, err := k.f.WriteAt(data, off); err != nil {
		t.Fatal(err)
	}
}

func (m *keeping) cut(t *rapid.T) {
	k, off := m.place(t)
	if err := k.f.Truncate(off); err != nil {
		t.Fatal(err)
	}
}

func (m *keeping) punch(t *rapid.T) {
	k, off := m.place(t)
	err := unix.Fallocate(int(k.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, 2*page)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatal(err)
	}
}

func (m *keeping) promote(t *rapid.T) {
	k, off := m.place(t)
	k.views[0].file.until.Store(0)
	promoteNow(m.t, k.views[0], off)
}

// views opens or closes one; a file without a view is opened again, or was deleted.
func (m *keeping) views(t *rapid.T) {
	k := m.files[rapid.IntRange(0, len(m.files)-1).Draw(t, "file")]
	if rapid.Bool().Draw(t, "open") {
		m.open(k)
		return
	}
	k.views[0].Close()
	if k.views = k.views[1:]; len(k.views) == 0 {
		if rapid.Bool().Draw(t, "deleted") {
			m.c.Forget(k.key)
		}
		m.open(k)
	}
}

// agree compares the sums with the system's.
func (m *keeping) agree(t *rapid.T) {
	s, sum := m.c.Stats(), int64(0)
	for _, k := range m.c.chunks {
		sum += int64(k.bytes)
	}
	if now := lockedMemory(m.t) - m.locked; s.Bytes != now || s.Bytes != sum || s.Bytes > m.budget || s.Budget != m.budget {
		t.Fatalf("%+v: %d bytes in chunks, %d are locked, of %d", s, sum, now, m.budget)
	}
}

func (m *keeping) end(t *rapid.T) {
	for _, k := range m.files {
		for _, v := range k.views {
			v.Close()
		}
		k.f.Close()
	}
	if err := m.c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.agree(t)
	if s := m.c.Stats(); s.Bytes != 0 || m.c.segments != 0 {
		t.Fatalf("%+v, %d segments", s, m.c.segments)
	}
}
