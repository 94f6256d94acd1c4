package vfs_test

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// An open that conflicts with orphans only is refused for the time being; a conflict with another open
// is a sharing violation. Orphans keep their locks and their I/O.
//
// Source: [OP-56]
func TestOrphanKeepsShareModeAndLocks(t *testing.T) {
	s := newSite(t)
	s.put("f")
	read := []func(*vfs.OpenRequest){access(vfs.ReadData), sharing(vfs.ShareAll)}
	write := []func(*vfs.OpenRequest){access(vfs.ReadData | vfs.WriteData), sharing(vfs.ShareAll)}
	orphan := s.mustOpen("f", access(vfs.ReadData|vfs.WriteData), sharing(vfs.ShareRead), owner("alice"))
	if err := orphan.TryLock(vfs.Lock{Range: vfs.Range{Off: 0, Len: 1}, Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := s.open("f", write...)
		wantStatus(t, "before the loss", err, ntstatus.SharingViolation)
		orphan.Ownership().SetOrphan(true)
		orphan.Ownership().SetOrphan(true)
		_, err = s.open("f", write...)
		wantStatus(t, "beside an orphan", err, ntstatus.FileNotAvailable)
		orphan.Ownership().SetOrphan(false)
	}
	orphan.Ownership().SetOrphan(true)
	other := s.mustOpen("f", access(vfs.ReadData), sharing(vfs.ShareRead|vfs.ShareWrite))
	held(t, other, func() {
		_, err := other.ReadAt(make([]byte, 1), 0)
		wantStatus(t, "a read of a locked range", err, ntstatus.FileLockConflict)
	})
	held(t, orphan, func() {
		if _, err := orphan.WriteAt([]byte("x"), 0); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.ByResumeKey(orphan.ResumeKey(), "alice"); err != nil {
		t.Error(err)
	}
	closed(t, other)
	strict := s.mustOpen("f", access(vfs.ReadData), sharing(vfs.ShareRead|vfs.ShareWrite))
	_, err := s.open("f", access(vfs.WriteData), sharing(vfs.ShareAll))
	wantStatus(t, "beside an orphan and an open that shares writes", err, ntstatus.FileNotAvailable)
	closed(t, strict, orphan)
	closed(t, s.mustOpen("f", write...), s.mustOpen("f", read...))
}

// A new owner finds the open and closes it; the last owner does not. Functions of OnTransfer run once.
//
// Source: [OP-56]
func TestOwnerOfOpenChanges(t *testing.T) {
	s := newSite(t)
	s.put("f")
	o := s.mustOpen("f", access(vfs.ReadData), owner("alice"))
	ran := 0
	o.Ownership().OnTransfer(func() { ran++ })
	o.Ownership().OnTransfer(func() { t.Error("a stopped function ran") })()
	o.Ownership().Transfer("bob")
	if o.Ownership().Transfer("bob"); ran != 1 || o.Ownership().Owner() != "bob" {
		t.Errorf("%d calls, owner %v", ran, o.Ownership().Owner())
	}
	_, err := s.ByResumeKey(o.ResumeKey(), "alice")
	wantStatus(t, "the key, for the last owner", err, ntstatus.ObjectNameNotFound)
	if found, err := s.ByResumeKey(o.ResumeKey(), "bob"); found != o || err != nil {
		t.Errorf("the key, for the owner: %v", err)
	}
	s.CloseOwner("alice")
	if err := o.Acquire(); err != nil {
		t.Fatalf("the last owner has closed the open: %v", err)
	}
	o.Release()
	s.CloseOwner("bob")
	if o.Acquire() == nil {
		t.Error("the owner has not closed the open")
	} else {
		o.Ownership().Transfer("carol") // of a closed open
	}
}
