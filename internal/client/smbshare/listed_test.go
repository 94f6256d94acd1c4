package smbshare

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/smb/smbclient"
	"lwio/internal/smb/smbwire"
)

// enumeration yields entries named by strings, and errors.
func enumeration(items ...any) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, x := range items {
			name, _ := x.(string)
			err, _ := x.(error)
			if !yield(Entry{Name: name}, err) {
				return
			}
		}
	}
}

// A listing has all entries with names that can be represented, up to the first other error.
func TestListedKeepsEntriesBesideErrors(t *testing.T) {
	broken := errors.New("broken")
	misnamed := func(name string) error { return fmt.Errorf("%q: %w", name, smbwire.ErrName) }
	for _, c := range []struct {
		items []any
		names []string
		err   error
		text  string
	}{
		{nil, nil, nil, ""},
		{[]any{"a", "b"}, []string{"a", "b"}, nil, ""},
		{[]any{"a", misnamed("x/y"), "b", misnamed("z/y")}, []string{"a", "b"}, fs.ErrInvalid, `2 entries are missing in the list: "x/y"`},
		{[]any{misnamed("x/y")}, nil, fs.ErrInvalid, "1 entries"},
		{[]any{"a", broken, "b"}, []string{"a"}, broken, "broken"},
		{[]any{"a", misnamed("x/y"), broken}, []string{"a"}, broken, "broken"},
	} {
		list, err := listed(enumeration(c.items...), 1<<20)
		var names []string
		for _, e := range list {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, c.names) || !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %q, %v", c.items, names, err)
		}
		if e := (*base.Error)(nil); errors.As(base.Wrap("readdir", "d", err), &e) && e.Remote {
			t.Errorf("%v counts as a refusal of the server", err)
		}
	}
}

// A change of names that is not answered has an unknown outcome; a refused change has not.
//
// Source: [OP-112]
func TestChangedMarksUnknownOutcomes(t *testing.T) {
	if err := changed(fmt.Errorf("rename: %w", smbclient.ErrUnknownOutcome)); !base.IsUncertain(err) {
		t.Error(err)
	}
	if err := changed(fs.ErrExist); base.IsUncertain(err) || !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := changed(nil); err != nil {
		t.Error(err)
	}
}

// Attributes of SMB become the mode, size and name of package fs.
func TestFileInfoFollowsAttributes(t *testing.T) {
	at := time.Unix(1, 0)
	for _, c := range []struct {
		path string
		e    Entry
		name string
		mode fs.FileMode
		size int64
	}{
		{"", Entry{Attributes: smbwire.AttributeDirectory, Size: 4096}, ".", fs.ModeDir | 0o777, 0},
		{"d/f", Entry{Size: 7, Modified: at}, "f", 0o666, 7},
		{"f", Entry{Size: 7, Attributes: attributeReadOnly}, "f", 0o444, 7},
		{"d", Entry{Attributes: smbwire.AttributeDirectory | attributeReadOnly}, "d", fs.ModeDir | 0o555, 0},
	} {
		i := InfoOf(c.path, c.e)
		if i.Name() != c.name || i.Mode() != c.mode || i.Type() != c.mode.Type() || i.Size() != c.size || i.IsDir() != c.mode.IsDir() || !i.ModTime().Equal(c.e.Modified) {
			t.Errorf("%q: %v", c.path, i)
		}
	}
	e := Entry{Attributes: 1, ID: 2, AllocationSize: 3, Created: at, Accessed: at.Add(1), Changed: at.Add(2)}
	want := Info{Attributes: 1, ID: 2, AllocationSize: 3, Created: at, Accessed: at.Add(1), Changed: at.Add(2)}
	if got := InfoOf("f", e).Sys().(*Info); *got != want {
		t.Errorf("%+v", got)
	}
}

// A listing without end, with or without names that can be represented, is given up at its limit.
func TestListedGivesUpEndlessListing(t *testing.T) {
	for _, item := range []error{nil, fmt.Errorf("x/y: %w", smbwire.ErrName)} {
		n := 0
		endless := func(yield func(Entry, error) bool) {
			for yield(Entry{Name: strings.Repeat("n", 100)}, item) {
				if n++; n > 1000 {
					t.Fatal("the listing goes on")
				}
			}
		}
		list, err := listed(endless, 100*(entryCost+100))
		if !errors.Is(err, errListing) || n != 100 || item == nil && len(list) != 100 {
			t.Errorf("%d entries of %d: %v", len(list), n, err)
		}
	}
}
