package vfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// model is the simplest model of the table of opens: the files by name, and the opens of each. It
// has no counters, no locks, no descriptors.
type model struct {
	t     *rapid.T
	s     *vfs.FS
	dir   string
	names map[string]*thing
	opens []*user
}

type thing struct {
	dir  bool
	size int64
	// goes is the name that is deleted at the last close, or "".
	goes string
}

type user struct {
	o      *vfs.Open
	on     *thing
	path   string
	access vfs.Access
	share  vfs.ShareMode
	doc    bool
	owner  string
}

// Random opens, closes, renames, deletes, writes and logoffs; after each step the
// table, the model and the disk agree.
//
// Source: [MS-FSA 2.1.5] [OP-56] [OP-58b]
func TestOpensMatchModel(t *testing.T) {
	leakcheck.Check(t)
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		f, dir := modelShare(t, base, vfs.Config{})
		m := &model{t: t, s: f, dir: dir, names: map[string]*thing{"": {dir: true}}}
		t.Repeat(map[string]func(*rapid.T){
			"open":   m.open,
			"close":  m.close,
			"delete": m.delete,
			"rename": m.rename,
			"write":  m.write,
			"logoff": m.logoff,
			"":       m.agree,
		})
	})
}

// modelShare serves a new directory under base as share x, for one run of a model.
func modelShare(t *rapid.T, base string, cfg vfs.Config) (f *vfs.FS, dir string) {
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Shares = []vfs.Share{{Name: "x", Backend: d}}
	f, err = vfs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, dir
}

var (
	modelPaths  = rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "e", "e/a"})
	modelAccess = rapid.SampledFrom([]vfs.Access{
		vfs.ReadData, vfs.WriteData, vfs.AppendData, vfs.Execute, vfs.Delete, vfs.ReadAttributes,
		vfs.ReadData | vfs.WriteData, vfs.ReadData | vfs.Delete, vfs.ReadData | vfs.WriteData | vfs.Delete,
	})
	modelOwner = rapid.SampledFrom([]string{"alice", "bob"})
)

// clash reports whether two uses of one thing exclude each other.
func clash(a1 vfs.Access, m1 vfs.ShareMode, a2 vfs.Access, m2 vfs.ShareMode) bool {
	const r, w, d = vfs.ReadData | vfs.Execute, vfs.WriteData | vfs.AppendData, vfs.Delete
	if a1&(r|w|d) == 0 || a2&(r|w|d) == 0 {
		return false
	}
	denies := func(m vfs.ShareMode, a vfs.Access) bool {
		return a&r != 0 && m&vfs.ShareRead == 0 || a&w != 0 && m&vfs.ShareWrite == 0 || a&d != 0 && m&vfs.ShareDelete == 0
	}
	return denies(m1, a2) || denies(m2, a1)
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// hasChild reports whether a directory has entries.
func (m *model) hasChild(path string) bool {
	for name := range m.names {
		if name != "" && parentOf(name) == path {
			return true
		}
	}
	return false
}

// predict returns the result of an open.
func (m *model) predict(path string, r vfs.OpenRequest) (ntstatus.Status, vfs.Action) {
	wantDir := r.Options&vfs.DirectoryFile != 0
	empties := r.Disposition == vfs.Supersede || r.Disposition == vfs.Overwrite || r.Disposition == vfs.OverwriteIf
	doc := r.Options&vfs.DeleteOnClose != 0
	if wantDir && empties || doc && r.Access&vfs.Delete == 0 {
		return ntstatus.InvalidParameter, 0
	}
	parent := m.names[parentOf(path)]
	if parent != nil && parent.dir && parent.goes != "" {
		return ntstatus.DeletePending, 0
	}
	if parent == nil || !parent.dir {
		return ntstatus.ObjectPathNotFound, 0
	}
	th := m.names[path]
	if th == nil {
		if r.Disposition == vfs.OpenExisting || r.Disposition == vfs.Overwrite {
			return ntstatus.ObjectNameNotFound, 0
		}
		return ntstatus.Success, vfs.Created
	}
	access := r.Access
	if empties {
		access |= vfs.WriteData
	}
	switch {
	case th.goes != "":
		return ntstatus.DeletePending, 0
	case r.Disposition == vfs.Create:
		return ntstatus.ObjectNameCollision, 0
	case th.dir && (empties || r.Options&vfs.NonDirectoryFile != 0):
		return ntstatus.FileIsADirectory, 0
	case !th.dir && wantDir:
		return ntstatus.NotADirectory, 0
	}
	for _, u := range m.opens {
		if u.on == th && clash(u.access, u.share, access, r.ShareMode) {
			return ntstatus.SharingViolation, 0
		}
	}
	if doc && th.dir && m.hasChild(path) {
		return ntstatus.DirectoryNotEmpty, 0
	}
	return ntstatus.Success, map[vfs.Disposition]vfs.Action{
		vfs.Supersede: vfs.Superseded, vfs.Overwrite: vfs.Overwritten, vfs.OverwriteIf: vfs.Overwritten,
		vfs.OpenExisting: vfs.Opened, vfs.OpenIf: vfs.Opened,
	}[r.Disposition]
}

func (m *model) open(t *rapid.T) {
	path := modelPaths.Draw(t, "path")
	kind := rapid.SampledFrom([]vfs.Options{0, vfs.DirectoryFile, vfs.NonDirectoryFile}).Draw(t, "kind")
	doc := rapid.SampledFrom([]vfs.Options{0, 0, 0, vfs.DeleteOnClose}).Draw(t, "doc")
	owner := modelOwner.Draw(t, "owner")
	r := vfs.OpenRequest{
		Share: "x", Path: path, Access: modelAccess.Draw(t, "access"), Options: kind | doc, Owner: owner,
		ShareMode:   rapid.SampledFrom([]vfs.ShareMode{0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7}).Draw(t, "sharing"),
		Disposition: vfs.Disposition(rapid.IntRange(0, 5).Draw(t, "disposition")),
	}
	want, action := m.predict(path, r)
	o, got, err := m.s.Open(r)
	if ntstatus.Of(err) != want || err == nil && got != action {
		t.Fatalf("open %+v: action %d, %v; want %d, %v", r, got, err, action, want)
	}
	if err != nil {
		return
	}
	if action == vfs.Created {
		m.names[path] = &thing{dir: kind == vfs.DirectoryFile}
	}
	th := m.names[path]
	if action != vfs.Opened {
		th.size = 0
	}
	m.opens = append(m.opens, &user{o: o, on: th, path: path, access: r.Access, share: r.ShareMode, doc: doc != 0, owner: owner})
}

// pick draws one of the opens.
func (m *model) pick(t *rapid.T) *user {
	if len(m.opens) == 0 {
		t.Skip("nothing is open")
	}
	return m.opens[rapid.IntRange(0, len(m.opens)-1).Draw(t, "open")]
}

// gone removes an open from the model and returns the result of its close.
func (m *model) gone(u *user) ntstatus.Status {
	m.opens = slices.DeleteFunc(m.opens, func(o *user) bool { return o == u })
	if u.doc && u.on.goes == "" {
		u.on.goes = u.path
	}
	if u.on.goes == "" || slices.ContainsFunc(m.opens, func(o *user) bool { return o.on == u.on }) {
		return ntstatus.Success
	}
	path := u.on.goes
	if u.on.dir && m.hasChild(path) {
		u.on.goes = ""
		return ntstatus.DirectoryNotEmpty
	}
	delete(m.names, path)
	return ntstatus.Success
}

func (m *model) close(t *rapid.T) {
	u := m.pick(t)
	want := m.gone(u)
	wantStatusRapid(t, "close "+u.path, u.o.Close(), want)
}

func (m *model) delete(t *rapid.T) {
	u := m.pick(t)
	on := rapid.Bool().Draw(t, "on")
	want := ntstatus.Success
	switch {
	case u.access&vfs.Delete == 0:
		want = ntstatus.AccessDenied
	case on && u.on.dir && m.hasChild(u.path):
		want = ntstatus.DirectoryNotEmpty
	case on && u.on.goes == "":
		u.on.goes = u.path
	case !on:
		u.on.goes = ""
	}
	wantStatusRapid(t, "delete "+u.path, u.o.SetDeleteOnClose(on), want)
}

func (m *model) rename(t *rapid.T) {
	u := m.pick(t)
	to := modelPaths.Draw(t, "to")
	replace := rapid.Bool().Draw(t, "replace")
	want := m.mayRename(u, to, replace)
	wantStatusRapid(t, fmt.Sprintf("rename %s to %s, %v", u.path, to, replace), u.o.Rename(to, replace), want)
	if want != ntstatus.Success || to == u.path {
		return
	}
	from := u.path
	moved := map[string]*thing{}
	for name, th := range m.names {
		if name == from || strings.HasPrefix(name, from+"/") {
			delete(m.names, name)
			moved[to+name[len(from):]] = th
		}
	}
	for name, th := range moved {
		m.names[name] = th
	}
	for _, o := range m.opens {
		if o.on == u.on {
			o.path = to
		}
	}
}

func (m *model) mayRename(u *user, to string, replace bool) ntstatus.Status {
	busy := func(th *thing) bool {
		return slices.ContainsFunc(m.opens, func(o *user) bool { return o.on == th })
	}
	below := slices.ContainsFunc(m.opens, func(o *user) bool { return strings.HasPrefix(o.path, u.path+"/") })
	closedDir := slices.ContainsFunc(m.opens, func(o *user) bool {
		const part = vfs.ReadData | vfs.Execute | vfs.WriteData | vfs.AppendData | vfs.Delete
		admits := o.access&part == 0 || o.access&vfs.Delete == 0 && o.share&vfs.ShareWrite != 0
		return o.on == m.names[parentOf(to)] && !admits
	})
	parent, target := m.names[parentOf(to)], m.names[to]
	switch {
	case u.access&vfs.Delete == 0:
		return ntstatus.AccessDenied
	case to == u.path:
		return ntstatus.Success
	case u.on.goes != "":
		return ntstatus.AccessDenied
	case parent != nil && parent.dir && parent.goes != "":
		return ntstatus.DeletePending
	case u.on.dir && (strings.HasPrefix(to, u.path+"/") || below):
		return ntstatus.AccessDenied
	case parent == nil || !parent.dir:
		return ntstatus.ObjectPathNotFound
	case target != nil && target.goes != "":
		return ntstatus.DeletePending
	case target != nil && !replace:
		return ntstatus.ObjectNameCollision
	case target != nil && (busy(target) || target.dir || u.on.dir):
		return ntstatus.AccessDenied
	case closedDir:
		return ntstatus.SharingViolation
	}
	return ntstatus.Success
}

func (m *model) write(t *rapid.T) {
	u := m.pick(t)
	off := rapid.Int64Range(0, 100).Draw(t, "offset")
	if err := u.o.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer u.o.Release()
	want := ntstatus.Success
	switch {
	case u.access&(vfs.WriteData|vfs.AppendData) == 0:
		want = ntstatus.AccessDenied
	case u.on.dir:
		want = ntstatus.InvalidDeviceRequest
	case u.access&vfs.WriteData == 0:
		u.on.size++
	default:
		u.on.size = max(u.on.size, off+1)
	}
	_, err := u.o.WriteAt([]byte{1}, off)
	wantStatusRapid(t, "write "+u.path, err, want)
}

func (m *model) logoff(t *rapid.T) {
	owner := modelOwner.Draw(t, "owner")
	// Which of several directories goes first is not promised; the model only
	// follows where the order cannot matter.
	if slices.ContainsFunc(m.opens, func(u *user) bool { return u.owner == owner && (u.doc || u.on.goes != "") }) {
		t.Skip("order of deletes")
	}
	m.s.CloseOwner(owner)
	for _, u := range slices.Clone(m.opens) {
		if u.owner == owner {
			m.gone(u)
		}
	}
}

// agree compares the model with the table and with the disk.
func (m *model) agree(t *rapid.T) {
	for _, u := range m.opens {
		if u.o.Path() != u.path || u.o.Granted() != u.access {
			t.Fatalf("open of %s is at %s, granted %x", u.path, u.o.Path(), u.o.Granted())
		}
		info, err := u.o.Stat()
		if err != nil || info.Size != u.on.size || info.Dir != u.on.dir || info.DeletePending != (u.on.goes != "") {
			t.Fatalf("%s: %+v, %v, want %d bytes", u.path, info, err, u.on.size)
		}
		if o, err := m.s.ByResumeKey(u.o.ResumeKey(), u.owner); o != u.o || err != nil {
			t.Fatalf("%s: resume key leads to %v, %v", u.path, o, err)
		}
	}
	if n := m.s.Stats().Opens; n != len(m.opens) {
		t.Fatalf("%d opens, want %d", n, len(m.opens))
	}
	found := 0
	err := filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		rel, _ := filepath.Rel(m.dir, path)
		if m.names[strings.TrimPrefix(filepath.ToSlash(rel), ".")] == nil {
			t.Fatalf("%s is on disk only", rel)
		}
		found++
		return err
	})
	if err != nil || found != len(m.names) {
		t.Fatalf("%d names on disk, want %d, %v", found, len(m.names), err)
	}
}

func wantStatusRapid(t *rapid.T, what string, err error, want ntstatus.Status) {
	if got := ntstatus.Of(err); got != want {
		t.Fatalf("%s: %v (%v), want %v", what, got, err, want)
	}
}
