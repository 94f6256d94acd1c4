package vfs_test

import (
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// An open begins again if the name stands for another file than the described one.
//
// Source: [MS-FSA 2.1.5.1]
func TestOpenRetriesWhenTheNameChanges(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file", "locked")
	if err := os.Chmod(s.host("locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	looks := 0
	h.looked = func(string) {
		if looks++; looks == 1 {
			if err := os.Rename(s.host("locked"), s.host("file")); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := s.open("file", access(vfs.ReadData|vfs.WriteData))
	wantStatus(t, "write a file that has become read-only", err, ntstatus.AccessDenied)
	if looks < 2 && os.Getuid() == 0 {
		t.Errorf("looked %d times", looks)
	}
	looks = 1
	h.looked = func(path string) {
		// The file appears and disappears: an open ends all the same.
		if looks++; looks%2 == 0 {
			os.Rename(s.host("file"), s.host("away"))
		} else {
			os.Rename(s.host("away"), s.host("file"))
		}
	}
	o, err := s.open("file", access(vfs.ReadData), disposition(vfs.OpenIf))
	if err == nil {
		closed(t, o)
	}
}

// WriteAt and WriteVec of an open with write-through are durable, of others not.
//
// Source: [OP-92f]
func TestWriteThroughReachesTheBackend(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	for name, write := range map[string]func(o *vfs.Open) (int, error){
		"WriteAt":  func(o *vfs.Open) (int, error) { return o.WriteAt([]byte("xy"), 0) },
		"WriteVec": func(o *vfs.Open) (int, error) { return o.WriteVec([][]byte{{'x'}, {'y'}}, 0) },
	} {
		h.durable = nil
		for _, opt := range []vfs.Options{0, vfs.WriteThrough, vfs.NoIntermediateBuffering} {
			o := s.mustOpen("file", options(opt))
			held(t, o, func() {
				if n, err := write(o); n != 2 || err != nil {
					t.Errorf("%s: %d, %v", name, n, err)
				}
			})
			closed(t, o)
		}
		if want := []bool{false, true, false}; !slices.Equal(h.durable, want) {
			t.Errorf("%s durable: %v, want %v", name, h.durable, want)
		}
	}
}

// An open whose file cannot be emptied fails and leaves nothing behind, also if its owner's
// opens are closed meanwhile.
func TestFailedOverwriteDuringCloseOwner(t *testing.T) {
	for _, during := range []bool{false, true} {
		h := &hooked{}
		s := newSite(t, hook(h))
		s.put("file")
		var closing sync.WaitGroup
		h.truncate = func() error {
			if during {
				closing.Go(func() { s.CloseOwner("alice") })
				time.Sleep(20 * time.Millisecond) // until it waits for the open in progress
			}
			return syscall.EIO
		}
		if o, err := s.open("file", disposition(vfs.Overwrite)); err == nil {
			t.Errorf("opened %v", o)
		}
		closing.Wait()
		if st := s.Stats(); st.Opens != 0 || st.Stalled != 0 {
			t.Errorf("%+v", st)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Backend.Close()
	}
}

// Source: [OP-57]
func TestDeleteIsGrantedByTheDirectoryAbove(t *testing.T) {
	h := &hooked{removable: fs.ErrPermission}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	_, err := s.open("file", access(vfs.Delete))
	wantStatus(t, "delete", err, ntstatus.AccessDenied)
	_, err = s.open("file", access(vfs.MaximumAllowed), options(vfs.DeleteOnClose))
	wantStatus(t, "delete on close", err, ntstatus.AccessDenied)
	o := s.mustOpen("file", access(vfs.MaximumAllowed))
	if o.Granted()&vfs.Delete != 0 || o.MaximalAccess()&vfs.Delete != 0 {
		t.Errorf("granted %x of %x", o.Granted(), o.MaximalAccess())
	}
}

// The end of the last I/O of a closed open does not wait for the close of the descriptor;
// FS.Close does.
//
// Source: [OP-58b]
func TestReleaseDoesNotWaitForDescriptor(t *testing.T) {
	begun, until := make(chan struct{}), make(chan struct{})
	h := &hooked{close: func() { close(begun); <-until }}
	s := newSite(t, hook(h), func(c *vfs.Config) { c.RevokeTimeout = time.Millisecond })
	defer h.Backend.Close()
	s.put("file")
	o := s.mustOpen("file")
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	closed(t, o)
	o.Release()
	<-begun
	over := make(chan error, 1)
	go func() { over <- s.Close() }()
	select {
	case err := <-over:
		t.Errorf("FS.Close returned %v before the descriptor was closed", err)
	case <-time.After(20 * time.Millisecond):
		close(until)
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

func TestNoOpensAfterClose(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.open("file")
	wantStatus(t, "open", err, ntstatus.FileClosed)
}
