package smbserver

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/statefile"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// A refused change of a file is not in the state, not even for a moment: the death of the server at that
// moment must not make it.
func TestRefusedChangeIsNotInTheState(t *testing.T) {
	r, _, addr := newRestarts(t)
	owner := mount(t, addr, "data")
	owner.mustCreate(persistent(create{name: "f", access: 0x10003, share: 7, disposition: 3}, 1, 0))
	reader := as(t, addr, "bob")
	id := reader.mustCreate(create{name: "f", access: 1, share: 7, disposition: 1})
	before := r.log.Stats()
	for class, data := range map[byte][]byte{13: {1}, 64: {1, 0, 0, 0}, 10: renameInfo("g", false)} {
		reader.want(ntstatus.AccessDenied, cmdSetInfo, setBody(id, 1, class, data))
	}
	if st := r.log.Stats(); st.FileBytes != before.FileBytes {
		t.Errorf("%d bytes of the state were written", st.FileBytes-before.FileBytes)
	}
}

// stuckRenames is a backend on a device of its own, whose renames wait.
type stuckRenames struct {
	vfs.Backend
	came, free chan struct{}
}

const stuckDevice = 1 << 40

func (b stuckRenames) Stat(path string) (vfs.FileInfo, error) {
	info, err := b.Backend.Stat(path)
	info.Device = stuckDevice
	return info, err
}

func (b stuckRenames) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := b.Backend.Create(path, how, readOnly)
	return stuckHandle{h}, err
}

func (b stuckRenames) Rename(string, string, vfs.NodeID, bool) error {
	close(b.came)
	<-b.free
	return ntstatus.UnexpectedIOError
}

type stuckHandle struct{ vfs.Handle }

func (h stuckHandle) Stat() (vfs.FileInfo, error) {
	info, err := h.Handle.Stat()
	info.Device = stuckDevice
	return info, err
}

// While the file system of a share does not answer a rename, files of others are renamed and deleted.
func TestStuckRenameDelaysNoOtherFileSystem(t *testing.T) {
	var dirs [2]vfs.Backend
	for i := range dirs {
		var err error
		if dirs[i], err = posix.OpenDir(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	stuck := stuckRenames{dirs[1], make(chan struct{}), make(chan struct{})}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: dirs[0]}, {Name: "stuck", Backend: stuck}}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := statefile.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{FS: files, ServerName: "TEST", Lookup: lookupTest, Durable: DurableConfig{State: log}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() {
		close(stuck.free)
		s.Close()
		<-done
		if err := files.Close(); err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	whole := create{name: "f", access: 0x10003, share: 7, disposition: 3}
	a := mount(t, l.Addr().String(), "stuck")
	a.send(a.message(cmdSetInfo, setBody(a.mustCreate(whole), 1, 10, renameInfo("g", false))))
	<-stuck.came
	b := mount(t, l.Addr().String(), "data")
	id := b.mustCreate(whole)
	b.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 10, renameInfo("g", false)))
	b.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 13, []byte{1}))
}

// heldRename is a backend on which the identification of a file and, after the file has its new name, its rename wait.
type heldRename struct {
	vfs.Backend
	identified      atomic.Bool // the next identification waits
	came, over      chan struct{}
	renamed, follow chan struct{}
}

func (b *heldRename) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := b.Backend.Open(path, how)
	return identifiedHandle{h, b}, err
}

func (b *heldRename) Rename(from, to string, node vfs.NodeID, replace bool) error {
	err := b.Backend.Rename(from, to, node, replace)
	close(b.renamed)
	<-b.follow
	return err
}

type identifiedHandle struct {
	vfs.Handle
	b *heldRename
}

func (h identifiedHandle) Identity() ([]byte, error) {
	if h.b.identified.Swap(false) {
		close(h.b.came)
		<-h.b.over
	}
	return h.Handle.Identity()
}

// The record of an open that is written while its file is being renamed has the new name too: the server can die before
// the end of the rename.
func TestOpenDuringRenameIsRestored(t *testing.T) {
	r, _, _ := newRestarts(t)
	r.stop()
	held := &heldRename{came: make(chan struct{}), over: make(chan struct{}), renamed: make(chan struct{}), follow: make(chan struct{})}
	r.wrap = func(b vfs.Backend) vfs.Backend {
		held.Backend = b
		return held
	}
	_, addr := r.start()
	other := as(t, addr, "bob")
	o := create{name: "f", access: 0x10003, share: 7, disposition: 3}
	id := other.mustCreate(o)
	c := mount(t, addr, "data")
	held.identified.Store(true)
	c.send(c.message(cmdCreate, persistent(o, 1, 0).body()))
	<-held.came // the server has the open, and no record of it
	other.send(other.message(cmdSetInfo, setBody(id, 1, 10, renameInfo("g", false))))
	<-held.renamed
	close(held.over)
	got := c.recv()[0]
	if got.status != ntstatus.Success {
		t.Fatal(got.status)
	}
	r.copied = func() { close(held.follow) }
	r.die()
	r.wrap, r.copied = nil, nil
	_, addr = r.start()
	c = c.resume(addr)
	c.mustReclaim([16]byte(got.body[64:80]), 1)
}

// The record of an open that is written while a close makes the delete of its file pending has the delete too.
func TestOpenDuringDeleteOnCloseIsRestored(t *testing.T) {
	r, s, addr := newRestarts(t)
	c, other := mount(t, addr, "data"), as(t, addr, "bob")
	whole := create{name: "f", access: 0x10003, share: 7, disposition: 3}
	doc := whole
	doc.options = 0x1000
	first := other.mustCreate(persistent(doc, 2, 0))
	var id [16]byte
	s.lineages.mu.Lock()
	file := s.lineages.opens[le.Uint64(first[:])].file
	s.lineages.mu.Unlock()
	file.OnRevoke(func() { id = c.mustCreate(persistent(whole, 1, 0)) }) // runs after the other records are written
	other.want(ntstatus.Success, cmdClose, closeBody(first, 0))
	if !r.kept(id).record.deleting {
		t.Error("the record of the open has no delete")
	}
	_, addr = r.restart()
	c = c.resume(addr)
	c.want(ntstatus.Success, cmdClose, closeBody(c.mustReclaim(id, 1), 0))
	if _, err := os.Stat(filepath.Join(r.data, "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the close: %v", err)
	}
}
