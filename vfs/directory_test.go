package vfs_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// names enumerates at most max entries.
func names(o *vfs.Open, restart bool, max int) (list []string, err error) {
	err = o.ReadDir(restart, func(i *vfs.FileInfo) bool {
		if len(list) == max {
			return false
		}
		list = append(list, i.Name)
		return true
	})
	return list, err
}

// Source: [MS-SMB2 3.3.5.18]
func TestReadDirListsAllEntries(t *testing.T) {
	s := newSite(t)
	s.put("dir/", "dir/sub/")
	want := []string{".", "..", "sub"}
	for i := range 1000 {
		name := fmt.Sprintf("file%04d", i)
		want = append(want, name)
		if err := os.WriteFile(s.host("dir/"+name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	o := s.mustOpen("dir")
	for _, batch := range []int{1, 7, 256, 5000} {
		var got []string
		restart := true
		for {
			list, err := names(o, restart, batch)
			restart = false
			if err != nil {
				wantStatus(t, "end", err, ntstatus.NoMoreFiles)
				break
			}
			got = append(got, list...)
		}
		if got[0] != "." || got[1] != ".." {
			t.Errorf("begins with %v", got[:2])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("in batches of %d: %d entries, want %d", batch, len(got), len(want))
		}
	}
	_, err := names(o, false, 1)
	wantStatus(t, "after the end", err, ntstatus.NoMoreFiles)
}

// An entry that yield refuses is returned again; none is lost, none is returned twice.
func TestReadDirReturnsRefusedEntryAgain(t *testing.T) {
	s := newSite(t)
	s.put("a", "b")
	o := s.mustOpen("")
	none, err := names(o, false, 0)
	if len(none) != 0 || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	got, err := names(o, false, 99)
	slices.Sort(got)
	if want := []string{".", "..", "a", "b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadDirNeedsListableDirectory(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	f, d := s.mustOpen("file"), s.mustOpen("dir", access(vfs.ReadAttributes))
	_, err := names(f, true, 1)
	wantStatus(t, "a file", err, ntstatus.InvalidParameter)
	_, err = names(d, true, 1)
	wantStatus(t, "without the right", err, ntstatus.AccessDenied)
	_, err = d.Entry("x")
	wantStatus(t, "entry without the right", err, ntstatus.AccessDenied)
	_, err = f.Entry("x")
	wantStatus(t, "entry of a file", err, ntstatus.InvalidParameter)
}

// Source: [MS-FSCC 2.1.5]
func TestReadDirSkipsNamesInvalidInSMB(t *testing.T) {
	s := newSite(t)
	odd := []string{"a\\b", "a:b", "a*b", "a?b", "a<b", "a>b", "a\"b", "a|b", "a\nb", "a\xffb"}
	made := 0
	for _, name := range append(odd, "good", "gööd") {
		if os.WriteFile(s.host(name), nil, 0o644) == nil && slices.Contains(odd, name) {
			made++
		}
	}
	o := s.mustOpen("")
	got, err := names(o, true, 99)
	slices.Sort(got)
	if want := []string{".", "..", "good", "gööd"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if n := s.Stats().SkippedEntries; n != uint64(made) {
		t.Errorf("%d names counted, want %d", n, made)
	}
}

func TestEntryDescribesOneName(t *testing.T) {
	s := newSite(t)
	s.put("dir/", "dir/file", "dir/sub/")
	d, f := s.mustOpen("dir"), s.mustOpen("dir/file")
	info, err := d.Entry("file")
	if err != nil || info.Name != "file" || info.Size != 19 || info.DeletePending {
		t.Errorf("%+v, %v", info, err)
	}
	if err := f.SetDeleteOnClose(true); err != nil {
		t.Fatal(err)
	}
	if info, err = d.Entry("file"); err != nil || !info.DeletePending {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err = d.Entry("sub"); err != nil || !info.Dir {
		t.Errorf("%+v, %v", info, err)
	}
	for name, want := range map[string]ntstatus.Status{
		"no": ntstatus.ObjectNameNotFound, "..": ntstatus.ObjectNameInvalid, "": ntstatus.ObjectNameInvalid,
		"sub/x": ntstatus.ObjectNameInvalid, "*": ntstatus.ObjectNameInvalid,
	} {
		_, err := d.Entry(name)
		wantStatus(t, name, err, want)
	}
}

// The close of a directory does not wait for the end of its enumeration.
//
// Source: [OP-58b]
func TestCloseEndsEnumeration(t *testing.T) {
	s := newSite(t, patient)
	s.put("dir/")
	for i := range 10 {
		s.put(fmt.Sprintf("dir/%d", i))
	}
	o := s.mustOpen("dir")
	seen := 0
	var over chan error
	err := o.ReadDir(true, func(*vfs.FileInfo) bool {
		if seen++; seen == 3 {
			revoked := make(chan struct{})
			o.OnRevoke(func() { close(revoked) })
			over = make(chan error, 1)
			go func() { over <- o.Close() }()
			<-revoked
		}
		return true
	})
	wantStatus(t, "enumeration of a directory that is closed", err, ntstatus.FileClosed)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if seen != 3 {
		t.Errorf("%d entries, want none after the third", seen)
	}
}
