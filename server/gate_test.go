package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"lwio/vfs"
	"lwio/vfs/posix"
)

// gate is a directory whose reads and writes can be blocked, and whose cache is always empty.
type gate struct {
	*posix.Dir
	t    testing.TB
	dir  string
	fail error  // of every write
	slow string // the only file that is blocked; "" for all
	room int64  // where the disk is full, for writes; 0 for no limit
	real bool   // the descriptors of files are visible

	mu     sync.Mutex
	cond   *sync.Cond
	closed bool
	held   int
	wrote  []int // bytes of each write, in their order
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{t: t, dir: t.TempDir()}
	g.cond = sync.NewCond(&g.mu)
	d, err := posix.OpenDir(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	g.Dir = d
	return g
}

func (g *gate) make(name string, content []byte) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), content, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := g.Dir.Open(path, how)
	if err != nil {
		return nil, err
	}
	return &gated{h, g, g.slow == "" || g.slow == path}, nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.cond.Broadcast()
}

// forget empties wrote.
func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrote = nil
}

// waiting returns the number of blocked operations.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held++
	for g.closed {
		g.cond.Wait()
	}
	g.held--
}

type gated struct {
	vfs.Handle
	g     *gate
	waits bool
}

func (h *gated) pass() {
	if h.waits {
		h.g.pass()
	}
}

func (h *gated) File() *os.File {
	if h.g.real {
		return h.Handle.File()
	}
	return nil
}

func (h *gated) ReadCached([]byte, int64) (int, bool, error) { return 0, false, nil }

func (h *gated) ReadAt(p []byte, off int64) (int, error) {
	h.pass()
	return h.Handle.ReadAt(p, off)
}

func (h *gated) WriteAt(p []byte, off int64, durable bool) (int, error) {
	h.pass()
	if h.g.fail != nil {
		return 0, h.g.fail
	}
	h.g.mu.Lock()
	h.g.wrote = append(h.g.wrote, len(p))
	h.g.mu.Unlock()
	if end := off + int64(len(p)); h.g.room != 0 && end > h.g.room {
		n, err := h.Handle.WriteAt(p[:max(h.g.room-off, 0)], off, durable)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return h.Handle.WriteAt(p, off, durable)
}

func (h *gated) Sync() error {
	h.pass()
	return h.Handle.Sync()
}

func (h *gated) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	return h.WriteAt(bytes.Join(pieces, nil), off, durable)
}
