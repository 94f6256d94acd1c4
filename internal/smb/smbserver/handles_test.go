package smbserver

import (
	"testing"

	"lwio/internal/ntstatus"
)

// Source: [MS-SMB2 3.3.5.7], [MS-SMB2 3.3.5.9]
func TestHandleTableBoundsTreesOpensAndPipes(t *testing.T) {
	h := newHandleTable(2, maxPipes+1)
	a, b := &tree{}, &tree{}
	for _, x := range []*tree{a, b} {
		if st := h.connect(x); st != ntstatus.Success || h.tree(x.id) != x {
			t.Fatal(st)
		}
	}
	if st := h.connect(&tree{}); st != ntstatus.InsufficientResources {
		t.Errorf("a third tree connect: %v", st)
	}
	for id := range uint64(maxPipes) {
		if st := h.add(&open{tree: a, pipe: &pipe{}}, id+1); st != ntstatus.Success {
			t.Fatal(st)
		}
	}
	if st := h.add(&open{tree: a, pipe: &pipe{}}, 1000); st != ntstatus.PipeNotAvailable {
		t.Errorf("one pipe too many: %v", st)
	}
	if st := h.add(&open{tree: b}, 1001); st != ntstatus.Success {
		t.Error(st)
	}
	if st := h.add(&open{tree: b}, 1002); st != ntstatus.TooManyOpenedFiles {
		t.Errorf("one open too many: %v", st)
	}
	if !h.remove(h.open(1)) || h.open(1) != nil || h.pipes != maxPipes-1 {
		t.Errorf("%d pipes after the removal of one", h.pipes)
	}
}

// Source: [MS-SMB2 3.3.5.8]
func TestHandleTableDisconnectReturnsTheOpensOfTheTree(t *testing.T) {
	h := newHandleTable(10, 10)
	a, b := &tree{}, &tree{}
	h.connect(a)
	h.connect(b)
	ofA, ofB := &open{tree: a}, &open{tree: b}
	h.add(ofA, 1)
	h.add(ofB, 2)
	if gone := h.disconnect(a); len(gone) != 1 || gone[0] != ofA || h.open(1) != nil || h.open(2) != ofB || h.tree(a.id) != nil {
		t.Errorf("%d opens were returned", len(gone))
	}
	if st := h.add(&open{tree: a}, 3); st != ntstatus.NetworkNameDeleted {
		t.Errorf("an open of a tree that is gone: %v", st)
	}
	h.close()
	if st := h.add(&open{tree: b}, 4); st != ntstatus.UserSessionDeleted || h.open(2) != nil {
		t.Errorf("an open after the end of the session: %v", st)
	}
	if st := h.connect(&tree{}); st != ntstatus.UserSessionDeleted {
		t.Errorf("a tree connect after the end of the session: %v", st)
	}
}
