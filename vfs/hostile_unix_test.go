//go:build unix

package vfs_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/vfs"
)

// link makes a symbolic link in the share.
func (s *site) link(target, path string) {
	s.t.Helper()
	if err := os.Symlink(target, s.host(path)); err != nil {
		s.t.Fatal(err)
	}
}

// outside makes a directory with a secret in it, outside the share.
func outside(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// No symbolic link leads out of the share, in any operation. [OP-57]
func TestLinksThatLeaveTheShareAreRefused(t *testing.T) {
	s := newSite(t)
	out := outside(t)
	rel, err := filepath.Rel(s.dir, out)
	if err != nil {
		t.Fatal(err)
	}
	s.put("dir/", "file")
	s.link(out, "absolute")
	s.link(rel, "relative")
	s.link(filepath.Join(out, "secret"), "secret")
	s.link("../../../../../../../../etc", "dir/climb")
	s.link("/", "dir/root")
	s.link("loop2", "loop1")
	s.link("loop1", "loop2")
	for _, path := range []string{"absolute", "absolute/secret", "relative", "relative/secret", "secret", "dir/climb/passwd", "dir/root/etc/passwd", "loop1", "loop1/x"} {
		for d := vfs.Supersede; d <= vfs.OverwriteIf; d++ {
			o, err := s.open(path, disposition(d), access(vfs.MaximumAllowed))
			if st := ntstatus.Of(err); st != ntstatus.AccessDenied {
				t.Errorf("%s, disposition %d: %v", path, d, err)
			}
			if err == nil {
				closed(t, o)
			}
		}
	}
	for _, path := range []string{"absolute/new", "relative/new"} {
		_, err := s.open(path, disposition(vfs.Create))
		wantStatus(t, path, err, ntstatus.AccessDenied)
		_, err = s.open(path, disposition(vfs.Create), options(vfs.DirectoryFile))
		wantStatus(t, path, err, ntstatus.AccessDenied)
		f := s.mustOpen("file")
		wantStatus(t, "rename to "+path, f.Rename(path, true), ntstatus.AccessDenied)
		closed(t, f)
	}
	root := s.mustOpen("")
	got, err := names(root, true, 99)
	slices.Sort(got)
	if want := []string{".", "..", "dir", "file"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("listed %q, %v", got, err)
	}
	left, err := os.ReadDir(out)
	b, _ := os.ReadFile(filepath.Join(out, "secret"))
	if err != nil || len(left) != 1 || string(b) != "secret" {
		t.Errorf("outside is changed: %v, %q, %v", left, b, err)
	}
}

func TestLinksInsideTheShareAreFollowed(t *testing.T) {
	s := newSite(t)
	s.put("dir/", "dir/sub/", "dir/sub/file")
	s.link("dir/sub", "short")
	s.link("../dir/sub/file", "dir/up")
	s.link("nowhere", "dangling")
	for _, path := range []string{"short/file", "dir/up"} {
		o := s.mustOpen(path, access(vfs.ReadData))
		held(t, o, func() {
			p := make([]byte, 7)
			if n, err := o.ReadAt(p, 0); err != nil || string(p[:n]) != "content" {
				t.Errorf("%s: %q, %v", path, p[:n], err)
			}
		})
		closed(t, o)
	}
	closed(t, s.mustOpen("short/new", disposition(vfs.Create)))
	if !s.exists("dir/sub/new") {
		t.Error("not created behind the link")
	}
	_, err := s.open("dangling")
	wantStatus(t, "dangling", err, ntstatus.ObjectNameNotFound)
	_, err = s.open("dangling", disposition(vfs.OpenIf))
	wantStatus(t, "create through a dangling link", err, ntstatus.AccessDenied)
	a := s.mustOpen("short/file", sharing(0))
	_, err = s.open("dir/sub/file")
	wantStatus(t, "the same file by its other path", err, ntstatus.SharingViolation)
	closed(t, a)
	// Deleting and renaming concern the link.
	wantStatus(t, "rename a link", s.mustOpen("dir/up").Rename("dir/up2", false), ntstatus.Success)
	s.CloseOwner("alice")
	for _, path := range []string{"dir/up2", "short"} {
		closed(t, s.mustOpen(path, access(vfs.Delete)))
		o := s.mustOpen(path, access(vfs.Delete))
		if err := o.SetDeleteOnClose(true); err != nil && path == "dir/up2" {
			t.Error(err)
		}
		closed(t, o)
	}
	if s.exists("dir/up2") || !s.exists("dir/sub/file") {
		t.Error("the delete went through the link")
	}
}

// FIFOs, sockets and devices are not opened, and do not block an open.
func TestSpecialFilesAreNotOpened(t *testing.T) {
	s := newSite(t)
	if err := syscall.Mkfifo(s.host("fifo"), 0o666); err != nil {
		skip.Test(t, "no FIFOs here", err)
	}
	l, err := net.Listen("unix", s.host("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	paths := []string{"fifo", "socket"}
	if syscall.Mknod(s.host("null"), syscall.S_IFCHR|0o666, 1<<8|3) == nil {
		paths = append(paths, "null")
	}
	for _, path := range paths {
		for _, a := range []vfs.Access{vfs.ReadData, vfs.WriteData, vfs.GenericAll, vfs.MaximumAllowed, vfs.Delete, vfs.ReadAttributes} {
			for _, d := range []vfs.Disposition{vfs.OpenExisting, vfs.OpenIf, vfs.OverwriteIf} {
				_, err := s.open(path, access(a), disposition(d))
				wantStatus(t, path, err, ntstatus.AccessDenied)
			}
		}
		_, err := s.open(path, options(vfs.DirectoryFile))
		wantStatus(t, path, err, ntstatus.AccessDenied)
	}
	// A FIFO replaces a file after it was described.
	d := newDir(t, s.dir)
	defer d.Close()
	for _, how := range []vfs.HandleMode{{Read: true}, {Write: true}, {Read: true, Write: true}} {
		h, err := d.Open("fifo", how)
		wantStatus(t, "the backend itself", err, ntstatus.AccessDenied)
		if err == nil {
			h.Close()
		}
	}
	root := s.mustOpen("")
	if got, err := names(root, true, 99); err != nil || len(got) != 2 {
		t.Errorf("listed %q, %v", got, err)
	}
}

// While another process swaps a directory for a link that leads out, opens, creates, renames and
// deletes stay inside the share or fail.
func TestSwappedLinkNeverLeadsOutside(t *testing.T) {
	s := newSite(t)
	out := outside(t)
	s.put("real/", "real/secret", "file")
	s.link(out, "trap")
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			// Each name is now the directory, now the link.
			os.Rename(s.host("real"), s.host("door"))
			os.Rename(s.host("door"), s.host("real"))
			os.Rename(s.host("trap"), s.host("door"))
			os.Rename(s.host("door"), s.host("trap"))
		}
	})
	opened := 0
	for i := range 3000 {
		o, err := s.open("door/secret", access(vfs.GenericRead))
		if err == nil {
			opened++
			held(t, o, func() {
				p := make([]byte, 20)
				n, _ := o.ReadAt(p, 0)
				if !bytes.HasPrefix(p[:n], []byte("content")) {
					t.Errorf("read %q", p[:n])
				}
			})
			o.Close()
		}
		if i%10 == 0 {
			if o, err := s.open("door/new", disposition(vfs.OpenIf), options(vfs.DeleteOnClose)); err == nil {
				o.Close()
			}
			if o, err := s.open("file"); err == nil {
				if o.Rename("door/moved", true) == nil {
					o.Rename("file", true)
				}
				o.Close()
			}
			if !s.exists("file") {
				s.put("file")
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d opens succeeded", opened)
	left, err := os.ReadDir(out)
	if err != nil || len(left) != 1 {
		t.Errorf("outside holds %v, %v", left, err)
	}
}

// Access that the server process does not have is refused, and not granted.
//
// Source: [OP-57]
func TestProcessPermissionsLimitAccess(t *testing.T) {
	if os.Getuid() == 0 {
		skip.Test(t, "root may do everything")
	}
	s := newSite(t)
	s.put("file", "dir/", "dir/x")
	for path, mode := range map[string]os.FileMode{"file": 0o044, "dir": 0o555} {
		if err := os.Chmod(s.host(path), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(s.host("dir"), 0o755) })
	_, err := s.open("file", access(vfs.ReadData))
	wantStatus(t, "read", err, ntstatus.AccessDenied)
	_, err = s.open("dir/x", access(vfs.Delete))
	wantStatus(t, "delete", err, ntstatus.AccessDenied)
	_, err = s.open("dir/x", access(vfs.MaximumAllowed), options(vfs.DeleteOnClose))
	wantStatus(t, "delete on close", err, ntstatus.AccessDenied)
	_, err = s.open("dir/new", disposition(vfs.Create))
	wantStatus(t, "create", err, ntstatus.AccessDenied)
	_, err = s.open("dir", access(vfs.WriteData))
	wantStatus(t, "add", err, ntstatus.AccessDenied)
	o := s.mustOpen("dir/x", access(vfs.MaximumAllowed))
	if o.Granted()&vfs.Delete != 0 || !o.Granted().Has(vfs.ReadData|vfs.WriteData) {
		t.Errorf("granted %x", o.Granted())
	}
	d := s.mustOpen("dir", access(vfs.MaximumAllowed))
	if d.Granted()&(vfs.WriteData|vfs.DeleteChild) != 0 || !d.Granted().Has(vfs.ListDirectory) {
		t.Errorf("granted %x", d.Granted())
	}
	closed(t, o, d)
}

// A delete removes the name: the target of a link stays as it is, with entries or without.
// [OP-57]
func TestDeleteOfALinkLeavesItsTarget(t *testing.T) {
	for _, target := range []string{"full", "bare", "file"} {
		for what, remove := range map[string]func(s *site){
			"pending delete": func(s *site) {
				o := s.mustOpen("link", access(vfs.Delete))
				if err := o.SetDeleteOnClose(true); err != nil {
					t.Errorf("link to %s: %v", target, err)
				}
				closed(t, o)
			},
			"option": func(s *site) {
				closed(t, s.mustOpen("link", access(vfs.Delete), options(vfs.DeleteOnClose)))
			},
		} {
			s := newSite(t)
			s.put("full/", "full/x", "bare/", "file")
			s.link(target, "link")
			remove(s)
			if s.exists("link") {
				t.Errorf("%s: the link to %s is still there", what, target)
			}
			if !s.exists(target) || !s.exists("full/x") {
				t.Errorf("%s: the target %s is gone", what, target)
			}
		}
	}
}

// A rename does not replace a special file.
func TestRenameDoesNotReplaceFIFO(t *testing.T) {
	s := newSite(t)
	s.put("file")
	if err := syscall.Mkfifo(s.host("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := s.mustOpen("file")
	wantStatus(t, "rename over a FIFO", f.Rename("fifo", true), ntstatus.AccessDenied)
	closed(t, f)
}
