package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// written is a write of a test.
type written struct {
	h           wire.Header
	data        []byte
	status      ntstatus.Status
	info        uint32
	byReference bool
}

// sends sends the write, with its data by reference if the provider supports that.
func (w *written) sends(c *rawClient) uint64 {
	if w.byReference {
		return c.sendByReferenceAt(int(w.h.Offset), w.h, nil, w.data)
	}
	return c.send(w.h, w.data)
}

// inLine sends writes that all wait behind one of the byte x at 1<<20-1, calls prepare, lets them
// go, and demands the answers to the writes.
func (c *rawClient) inLine(b *gate, fid uint16, x byte, all []written, prepare func()) {
	c.t.Helper()
	b.shut()
	first := c.send(writeHeader(fid, 1<<20-1, 1), []byte{x})
	eventually(c.t, "the first write is in progress", func() bool { return b.waiting() == 1 })
	want := map[uint64]*written{first: nil}
	for i := range all {
		want[all[i].sends(c)] = &all[i]
	}
	eventually(c.t, "the others wait", func() bool { return c.v.e.writers.length() == len(all) })
	prepare()
	b.open()
	for range len(want) {
		s := c.reply()
		w, is := want[s.Cookie]
		delete(want, s.Cookie)
		if !is || w != nil && (s.Status != uint32(w.status) || s.Information != w.info) {
			c.t.Errorf("answer %+v to %+v", s, w)
		}
	}
}

// writesOf are writes of n bytes each, one behind the other from off on.
func writesOf(fid uint16, off, n, count int) (all []written) {
	for i := range count {
		data := content(n + i)[i:]
		all = append(all, written{h: writeHeader(fid, uint64(off+i*n), n), data: data, info: uint32(n)})
	}
	return all
}

// byReferenceOf returns the writes, with the data of those at the given indices by reference.
func byReferenceOf(all []written, which ...int) []written {
	for _, i := range which {
		all[i].byReference = true
	}
	return all
}

// Waiting writes that continue one another go to the file by one system call, if they are of one
// file and within the bounds of a run, and each is answered by itself.
//
// Source: [LWIO §Write] [OP-92f]
func TestContiguousWritesAreOneSystemCall(t *testing.T) {
	onEach(t, testContiguousWritesAreOneSystemCall)
}

func testContiguousWritesAreOneSystemCall(t *testing.T, on string) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		writes func(fid, other uint16) []written
		want   []int // bytes of each write to the file, without the first
	}{
		"one behind the other": {func(fid, _ uint16) []written { return writesOf(fid, 4096, 100, 9) }, []int{900}},
		"a gap": {func(fid, _ uint16) []written {
			return append(writesOf(fid, 0, 100, 2), writesOf(fid, 300, 100, 2)...)
		}, []int{200, 200}},
		"backwards": {func(fid, _ uint16) []written {
			all := writesOf(fid, 0, 100, 3)
			slices.Reverse(all)
			return all
		}, []int{100, 100, 100}},
		"two opens": {func(fid, other uint16) []written {
			return append(writesOf(fid, 0, 100, 2), writesOf(other, 200, 100, 2)...)
		}, []int{200, 200}},
		"much": {func(fid, _ uint16) []written {
			return writesOf(fid, 0, 64<<10, runBytes/(64<<10)+2)
		}, []int{runBytes, 128 << 10}},
		"collapsed": {func(fid, _ uint16) []written {
			all := writesOf(fid, 0, 4096, 2)
			same := writeHeader(fid, 2*4096, 2*4096)
			same.Opcode, same.Flags = wire.OpVecWrite, same.Flags|wire.FlagCollapse
			same.NumPages, same.PageSize = 2, pageSize
			return append(all, written{h: same, data: content(4096), info: 2 * 4096})
		}, []int{2 * 4096, 2 * 4096}},
		"by reference":        {func(fid, _ uint16) []written { return byReferenceOf(writesOf(fid, 0, 100, 5), 0, 1, 2, 3, 4) }, []int{500}},
		"partly by reference": {func(fid, _ uint16) []written { return byReferenceOf(writesOf(fid, 0, 100, 6), 1, 2, 5) }, []int{600}},
		"vectored": {func(fid, _ uint16) []written {
			all := writesOf(fid, 0, 4096, 3)
			all[1].h.Opcode = wire.OpVecWrite
			return all
		}, []int{3 * 4096}},
	} {
		t.Run(name, func(t *testing.T) {
			b, v, c, _, _ := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 1}})
			fid := c.register(v.open("a", vfs.WriteData, vfs.NoIntermediateBuffering, v.sess))
			other := c.register(v.open("a", vfs.WriteData, 0, v.sess))
			want := content(2 * mib)
			if err := os.WriteFile(filepath.Join(b.dir, "a"), want, 0o600); err != nil {
				t.Fatal(err)
			}
			if on == "shm" {
				c.exposesMemory(fid)
				copy(want, "first")
				b.forget()
			}
			all := test.writes(fid, other)
			c.inLine(b, fid, want[mib-1], all, func() {})
			for _, w := range all {
				copy(want[w.h.Offset:], tile(make([]byte, w.h.Length), w.data))
			}
			if !slices.Equal(b.wrote, append([]int{1}, test.want...)) {
				t.Errorf("writes of %d bytes, want %d", b.wrote[1:], test.want)
			}
			if got, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || !slices.Equal(got, want) {
				t.Errorf("another content, %v", err)
			}
		})
	}
}

// A failure in a run is the answer of the failed write, and of each write that also fails alone.
//
// Source: [OP-90] [OP-92f]
func TestFailureInRunAnswersFailedWrites(t *testing.T) {
	onEach(t, testFailureInRunAnswersFailedWrites)
}

func testFailureInRunAnswersFailedWrites(t *testing.T, on string) {
	for name, test := range map[string]struct {
		prepare func(v *env, b *gate)
		wrong   map[int]written // status and information of those that fail
	}{
		"a lock": {func(v *env, _ *gate) {
			o := v.open("a", vfs.ReadData|vfs.WriteData, 0, "another")
			if err := o.TryLock(vfs.Lock{Range: vfs.Range{Off: 250, Len: 100}, Exclusive: true}); err != nil {
				v.t.Fatal(err)
			}
		}, map[int]written{2: {status: ntstatus.FileLockConflict}, 3: {status: ntstatus.FileLockConflict}}},
		"a full disk": {func(_ *env, b *gate) { b.room = 330 }, map[int]written{
			3: {status: ntstatus.DiskFull, info: 30}, 4: {status: ntstatus.DiskFull},
		}},
		"a full disk, between two": {func(_ *env, b *gate) { b.room = 300 }, map[int]written{
			3: {status: ntstatus.DiskFull}, 4: {status: ntstatus.DiskFull},
		}},
		"a broken disk": {func(_ *env, b *gate) { b.fail = os.ErrPermission }, map[int]written{
			0: {status: ntstatus.AccessDenied}, 1: {status: ntstatus.AccessDenied}, 2: {status: ntstatus.AccessDenied},
			3: {status: ntstatus.AccessDenied}, 4: {status: ntstatus.AccessDenied},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, v, c, _, fid := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 1}})
			all := writesOf(fid, 0, 100, 5)
			want := content(1 << 20)
			for i := range all {
				if w, fails := test.wrong[i]; fails {
					all[i].status, all[i].info = w.status, w.info
				}
				copy(want[all[i].h.Offset:], all[i].data[:all[i].info])
			}
			c.inLine(b, fid, want[1<<20-1], all, func() { test.prepare(v, b) })
			if got, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || !slices.Equal(got, want) {
				t.Errorf("another content, %v", err)
			}
		})
	}
}
