package smbserver

import (
	"fmt"
	"slices"
	"testing"

	"lwio/vfs"
)

// The durable opens of a file are found after any number of them came and went.
func TestDurableOpensOfAFileAreFound(t *testing.T) {
	s, stop := newBareServer(t, t.TempDir())
	defer stop()
	ss, _ := s.session(t, testUser, 1, 0)
	var opens []*open
	check := func() {
		t.Helper()
		for _, o := range opens {
			var want []*durable
			for _, p := range opens {
				if p.file.Path() == o.file.Path() {
					want = append(want, p.durable)
				}
			}
			got := s.lineages.ofFile(o.file)
			slices.Reverse(got) // the newest is the first
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d opens, want %d", o.file.Path(), len(got), len(want))
			}
		}
	}
	for i := range 12 {
		o, err := s.open(ss, fmt.Sprint("f", i%3), vfs.ShareAll, byte(i+1), 0)
		if err != nil {
			t.Fatal(err)
		}
		opens = append(opens, o)
		check()
	}
	for _, at := range []int{0, 10, 5, 3, 0, 6, 2, 2, 0, 0, 1, 0} {
		o := opens[at]
		ss.handles.remove(o)
		o.close()
		opens = slices.Delete(opens, at, at+1)
		if len(s.lineages.ofFile(o.file)) > len(opens) {
			t.Errorf("%s: a closed open is found", o.file.Path())
		}
		check()
	}
}

// The search for the durable opens of a file does not look at those of other files: a client with many of them would
// delay the renames and the opens of all others.
func TestOpensOfOtherFilesAreNotSearched(t *testing.T) {
	s, stop := newBareServer(t, t.TempDir())
	defer stop()
	ss, _ := s.session(t, testUser, 1, 0)
	o, err := s.open(ss, "f", vfs.ShareAll, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	const unusable = 1 << 40 // an open without a file: a look at it panics
	s.lineages.opens[unusable] = new(durable)
	got := s.lineages.ofFile(o.file)
	delete(s.lineages.opens, unusable)
	if len(got) != 1 || got[0] != o.durable {
		t.Errorf("%d opens", len(got))
	}
}
