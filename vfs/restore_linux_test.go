package vfs_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// A file is changed by another program if both its times are later than the last change of the server: a new mode or name
// changes one of them, and a time that is set by a client or a program the other. A time in the future says nothing.
func TestRestoreComparesBothTimes(t *testing.T) {
	now := time.Now()
	for name, x := range map[string]struct {
		modified time.Time
		bound    func(changed time.Time) time.Time // by the time of the inode
		want     error
	}{
		"both later":       {now.Add(-time.Minute), func(time.Time) time.Time { return now.Add(-time.Hour) }, ntstatus.FileForcedClosed},
		"inode later":      {now.Add(-time.Hour), func(time.Time) time.Time { return now.Add(-time.Minute) }, nil},
		"content later":    {now.Add(time.Second), func(changed time.Time) time.Time { return changed }, nil},
		"nothing is known": {now.Add(-time.Minute), func(time.Time) time.Time { return time.Time{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("f")
			o := s.mustOpen("f", func(r *vfs.OpenRequest) { r.ShareMode = 0 })
			record, err := o.Record()
			if err := errors.Join(err, o.Close(), os.Chtimes(s.host("f"), time.Time{}, x.modified)); err != nil {
				t.Fatal(err)
			}
			info, err := s.statOf("f")
			if err != nil {
				t.Fatal(err)
			}
			for !time.Now().After(x.modified) {
				time.Sleep(time.Millisecond)
			}
			o, err = s.Restore(vfs.RestoreRequest{Record: record, Owner: "alice", Unchanged: x.bound(info.Changed)})
			if !errors.Is(err, x.want) {
				t.Fatalf("%v instead of %v", err, x.want)
			}
			if o != nil {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// statOf describes a file.
func (s *site) statOf(path string) (vfs.FileInfo, error) {
	o := s.mustOpen(path)
	info, err := o.Stat()
	return info, errors.Join(err, o.Close())
}
