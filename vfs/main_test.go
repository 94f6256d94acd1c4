package vfs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// everything is the access of most opens of the tests.
const everything = vfs.GenericAll

// site is a table of opens over one scratch directory, as the shares "data" and
// "frozen", of which the second is read-only.
type site struct {
	*vfs.FS
	t   testing.TB
	dir string
}

func newSite(t testing.TB, change ...func(*vfs.Config)) *site {
	t.Helper()
	leakcheck.Check(t)
	dir := t.TempDir()
	cfg := vfs.Config{Shares: []vfs.Share{
		{Name: "data", Backend: newDir(t, dir)},
		{Name: "frozen", Backend: newDir(t, dir), ReadOnly: true},
	}}
	for _, f := range change {
		f(&cfg)
	}
	f, err := vfs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if s := f.Stats(); s.Opens != 0 || s.Stalled != 0 {
			t.Errorf("after Close: %+v", s)
		}
	})
	return &site{FS: f, t: t, dir: dir}
}

// patient makes closes wait for I/O as long as a slow machine may need.
func patient(c *vfs.Config) { c.RevokeTimeout = time.Minute }

func newDir(t testing.TB, path string) *posix.Dir {
	t.Helper()
	d, err := posix.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// host is the path on disk of a path in the share.
func (s *site) host(path string) string { return filepath.Join(s.dir, filepath.FromSlash(path)) }

// put makes files (and, where a path ends in a slash, directories) on disk.
func (s *site) put(paths ...string) {
	s.t.Helper()
	for _, p := range paths {
		var err error
		if p[len(p)-1] == '/' {
			err = os.MkdirAll(s.host(p), 0o755)
		} else {
			err = os.WriteFile(s.host(p), []byte("content of "+p), 0o644)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// exists reports whether the path exists on disk.
func (s *site) exists(path string) bool {
	_, err := os.Lstat(s.host(path))
	return err == nil
}

// open opens an existing file of "data" with all access and all sharing. change changes the request.
func (s *site) open(path string, change ...func(*vfs.OpenRequest)) (*vfs.Open, error) {
	req := vfs.OpenRequest{
		Share: "data", Path: path, Access: everything,
		ShareMode: vfs.ShareAll, Disposition: vfs.OpenExisting, Owner: "alice",
	}
	for _, f := range change {
		f(&req)
	}
	o, _, err := s.Open(req)
	return o, err
}

func (s *site) mustOpen(path string, change ...func(*vfs.OpenRequest)) *vfs.Open {
	s.t.Helper()
	o, err := s.open(path, change...)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func access(a vfs.Access) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Access = a }
}

func options(o vfs.Options) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Options |= o }
}

func sharing(m vfs.ShareMode) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.ShareMode = m }
}

func disposition(d vfs.Disposition) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Disposition = d }
}

func attributes(a uint32) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Attributes = a }
}

func owner(o vfs.Owner) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Owner = o }
}

func inShare(name string) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.Share = name }
}

// wantStatus fails the test unless err is, or wraps, that status. Success is nil.
func wantStatus(t testing.TB, what string, err error, want ntstatus.Status) {
	t.Helper()
	if got := ntstatus.Of(err); got != want {
		t.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

// closed closes and expects no error.
func closed(t testing.TB, opens ...*vfs.Open) {
	t.Helper()
	for _, o := range opens {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// held runs f with a reference on o.
func held(t testing.TB, o *vfs.Open, f func()) {
	t.Helper()
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer o.Release()
	f()
}
