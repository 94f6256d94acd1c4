package vfs_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
)

// listingModel knows the listings of directories as clients with leases of them do.
type listingModel struct {
	t       *rapid.T
	s       *vfs.FS
	dir     string // on disk
	holders []*listingHolder
	files   []*listedFile
}

// listingHolder is a client that may have a lease of a directory, with the listing that it has made under the lease.
type listingHolder struct {
	m       *listingModel
	path    string
	key     vfs.LeaseKey
	open    *vfs.Open // nil without a lease
	state   vfs.LeaseState
	pending bool
	listing map[string]int64 // sizes by name
}

// listedFile is an open of a file, which names the lease of a holder, or none.
type listedFile struct {
	o       *vfs.Open
	by      *listingHolder
	written bool // since the last flush
}

// Random changes of the files of two directories by several clients. A listing that a client keeps under a lease has the
// names that are there, and the sizes of all files but those with writes that are not flushed.
//
// Source: [MS-FSA 2.1.4.12], [MS-SMB2 3.3.1.4]
func TestDirectoryLeasesMatchModel(t *testing.T) {
	leakcheck.Check(t)
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		f, dir := modelShare(t, base, vfs.Config{})
		m := &listingModel{t: t, s: f, dir: dir}
		for i, path := range []string{"d", "e"} {
			if err := os.Mkdir(filepath.Join(dir, path), 0o755); err != nil {
				t.Fatal(err)
			}
			for client := range 2 {
				m.holders = append(m.holders, &listingHolder{m: m, path: path, key: keyOf(byte(2*i + client + 1))})
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": m.take, "give up": m.giveUp, "acknowledge": m.acknowledge,
			"open": m.open, "write": m.write, "flush": m.flush, "size": m.size, "rename": m.rename, "delete": m.remove, "close": m.close,
			"": m.agree,
		})
		for len(m.files) > 0 {
			m.closeOne(0)
		}
	})
}

func (h *listingHolder) broken(b vfs.LeaseBreak) vfs.LeaseReach {
	if h.pending || b.From != h.state || b.To != 0 || b.Ack != (b.From != leaseR) {
		h.m.t.Fatalf("break %+v of a lease %b, pending %t", b, h.state, h.pending)
	}
	if h.pending = b.Ack; !b.Ack {
		h.state = 0
	}
	return vfs.LeaseReached
}

// list reads the directory.
func (h *listingHolder) list() {
	h.listing = h.m.list(h.path)
}

// list returns the sizes of the files of a directory by their names.
func (m *listingModel) list(path string) map[string]int64 {
	entries, err := os.ReadDir(filepath.Join(m.dir, path))
	if err != nil {
		m.t.Fatal(err)
	}
	sizes := make(map[string]int64)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			m.t.Fatal(err)
		}
		sizes[e.Name()] = info.Size()
	}
	return sizes
}

// holder picks a client that has an open of its directory, or has none.
func (m *listingModel) holder(t *rapid.T, opened bool) *listingHolder {
	m.t = t
	h := rapid.SampledFrom(m.holders).Draw(t, "holder")
	if (h.open != nil) != opened {
		t.Skip("no such client")
	}
	return h
}

// take asks for a lease, for the first time or again, and lists the directory.
func (m *listingModel) take(t *rapid.T) {
	m.t = t
	h := rapid.SampledFrom(m.holders).Draw(t, "holder")
	asked := rapid.SampledFrom([]vfs.LeaseState{leaseR, leaseRH}).Draw(t, "state")
	o, _, err := m.s.Open(vfs.OpenRequest{
		Share: "x", Path: h.path, Access: vfs.ListDirectory, ShareMode: vfs.ShareAll, Disposition: vfs.OpenExisting,
		Lease: &vfs.LeaseRequest{Key: h.key, State: asked, V2: true, Directories: true, Broken: h.broken},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := o.Lease()
	if got.Breaking != h.pending || !h.pending && got.State&asked != asked {
		t.Fatalf("asked %b: %+v, pending %t", asked, got, h.pending)
	}
	h.state = got.State
	if h.open == nil {
		h.open = o
	} else if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	h.list()
}

func (m *listingModel) giveUp(t *rapid.T) {
	h := m.holder(t, true)
	if err := h.open.Close(); err != nil {
		t.Fatal(err)
	}
	h.open, h.state, h.pending = nil, 0, false
}

func (m *listingModel) acknowledge(t *rapid.T) {
	h := m.holder(t, true)
	if !h.pending {
		t.Skip("no break")
	}
	h.state, h.pending = 0, false
	if _, err := m.s.AcknowledgeLease(h.key, 0); err != nil {
		t.Fatal(err)
	}
}

// path picks a path of a file.
func (m *listingModel) path(t *rapid.T) string {
	m.t = t
	return rapid.SampledFrom([]string{"d/a", "d/b", "e/a", "e/b"}).Draw(t, "path")
}

// open opens or creates a file.
func (m *listingModel) open(t *rapid.T) {
	f := &listedFile{}
	q := vfs.OpenRequest{
		Share: "x", Path: m.path(t), Access: everything, ShareMode: vfs.ShareAll,
		Disposition: rapid.SampledFrom([]vfs.Disposition{vfs.OpenIf, vfs.OverwriteIf}).Draw(t, "disposition"),
		Lease:       &vfs.LeaseRequest{Key: keyOf(byte(100 + rapid.IntRange(0, 99).Draw(t, "key"))), V2: true, Broken: new(holder).broken},
	}
	if rapid.Bool().Draw(t, "named") {
		f.by = rapid.SampledFrom(m.holders).Draw(t, "parent")
		q.Lease.Parent = &f.by.key
	}
	if rapid.IntRange(0, 4).Draw(t, "deletes") == 0 {
		q.Options = vfs.DeleteOnClose
	}
	o, _, err := m.s.Open(q)
	switch {
	case errors.Is(err, ntstatus.DeletePending), errors.Is(err, ntstatus.InvalidParameter): // the key of another file
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	f.o = o
	m.files = append(m.files, f)
	f.changed()
}

// changed makes the client whose lease the open names list the directory: it knows the change.
func (f *listedFile) changed() {
	if f.by != nil {
		f.by.list()
	}
}

// file picks an open.
func (m *listingModel) file(t *rapid.T) *listedFile {
	m.t = t
	if len(m.files) == 0 {
		t.Skip("no open")
	}
	return rapid.SampledFrom(m.files).Draw(t, "file")
}

func (m *listingModel) write(t *rapid.T) {
	f := m.file(t)
	if err := f.o.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer f.o.Release()
	if _, err := f.o.WriteAt([]byte("x"), int64(rapid.IntRange(0, 20).Draw(t, "at"))); err != nil {
		t.Fatal(err)
	}
	f.written = true
}

func (m *listingModel) flush(t *rapid.T) {
	f := m.file(t)
	if err := f.o.Sync(); err != nil {
		t.Fatal(err)
	}
	f.written = false
	f.changed()
}

func (m *listingModel) size(t *rapid.T) {
	f := m.file(t)
	if err := f.o.Truncate(int64(rapid.IntRange(0, 20).Draw(t, "size"))); err != nil {
		t.Fatal(err)
	}
	f.changed()
}

func (m *listingModel) rename(t *rapid.T) {
	f := m.file(t)
	if err := f.o.Rename(m.path(t), rapid.Bool().Draw(t, "replace")); err != nil {
		if vfs.AsLeaseWait(err) != nil {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	f.changed()
}

func (m *listingModel) remove(t *rapid.T) {
	if err := m.file(t).o.SetDeleteOnClose(rapid.Bool().Draw(t, "on")); err != nil {
		t.Skip(err)
	}
}

func (m *listingModel) close(t *rapid.T) {
	m.t = t
	if len(m.files) == 0 {
		t.Skip("no open")
	}
	m.closeOne(rapid.IntRange(0, len(m.files)-1).Draw(t, "open"))
}

func (m *listingModel) closeOne(i int) {
	f := m.files[i]
	m.files = append(m.files[:i:i], m.files[i+1:]...)
	if err := f.o.Close(); err != nil {
		m.t.Fatal(err)
	}
	f.changed()
}

// agree compares the listings of clients whose leases are not broken with the directories.
func (m *listingModel) agree(t *rapid.T) {
	m.t = t
	written := make(map[string]bool)
	for _, f := range m.files {
		if f.written {
			written[f.o.Path()] = true
		}
	}
	for _, h := range m.holders {
		if h.open == nil {
			continue
		}
		if got := h.open.Lease(); got.State != h.state || got.Breaking != h.pending {
			t.Fatalf("server %+v, client %b, pending %t", got, h.state, h.pending)
		}
		if h.state&leaseR == 0 || h.pending {
			continue
		}
		real, kept := m.list(h.path), maps.Clone(h.listing)
		for name := range real {
			if written[h.path+"/"+name] {
				kept[name] = real[name]
			}
		}
		if len(kept) != len(h.listing) || !maps.Equal(real, kept) {
			t.Fatalf("%s has %v, its listing under a lease %v", h.path, real, h.listing)
		}
	}
}
