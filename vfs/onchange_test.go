package vfs_test

import (
	"os"
	"testing"
	"time"

	"lwio/vfs"
)

// The function of OnChange runs before each change of a file: when it runs, the file has no time later than then.
func TestOnChangeRunsBeforeEachChange(t *testing.T) {
	overwrite := func(r *vfs.OpenRequest) { r.Disposition = vfs.Overwrite }
	for name, do := range map[string]func(s *site, o *vfs.Open) error{
		"write":  func(_ *site, o *vfs.Open) error { _, err := o.WriteAt([]byte("x"), 5); return err },
		"vector": func(_ *site, o *vfs.Open) error { _, err := o.WriteVec([][]byte{{'x'}, {'y'}}, 3); return err },
		"size":   func(_ *site, o *vfs.Open) error { return o.Truncate(5) },
		"times":  func(_ *site, o *vfs.Open) error { return o.SetTimes(vfs.Times{Modified: time.Unix(1, 0)}) },
		"attributes": func(_ *site, o *vfs.Open) error {
			return o.SetAttributes(vfs.AttrReadOnly)
		},
		"overwrite": func(s *site, _ *vfs.Open) error {
			other, err := s.open("f", overwrite)
			if err == nil {
				err = other.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if err := os.WriteFile(s.host("f"), []byte("0123456789"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(s.host("f"), time.Time{}, time.Unix(2, 0)); err != nil {
				t.Fatal(err)
			}
			o := s.mustOpen("f")
			if err := o.Acquire(); err != nil {
				t.Fatal(err)
			}
			old, err := o.Stat()
			if err != nil {
				t.Fatal(err)
			}
			ran := 0
			s.OnChange(func() {
				ran++
				now, err := os.Stat(s.host("f"))
				if err != nil || !now.ModTime().Equal(old.Modified) || now.Size() != old.Size || now.Mode().Perm() != 0o600 {
					t.Errorf("the file has changed before: %v, %v", now, err)
				}
			})
			if err := do(s, o); err != nil {
				t.Fatal(err)
			}
			if ran != 1 {
				t.Errorf("it ran %d times", ran)
			}
			o.Release()
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
