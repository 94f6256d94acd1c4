package vfs_test

import (
	"errors"
	"os"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// mark is a write of a test.
type mark struct{ overtaken bool }

func (m *mark) Overtaken() { m.overtaken = true }

// tracking is a site that tracks writes, with a file of ten bytes.
func tracking(t *testing.T) (*site, *vfs.Open) {
	s := newSite(t)
	s.TrackWrites()
	if err := os.WriteFile(s.host("f"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.mustOpen("f")
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.Release()
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, o
}

// A change of the bytes of a write in progress is noted, of any open and by any call. Other changes, and those after
// the end of the write, are not.
//
// Source: [OP-112]
func TestOvertakenWriteIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(o *vfs.Open) error
		want bool
	}{
		"write":        {func(o *vfs.Open) error { _, err := o.WriteAt([]byte("x"), 5); return err }, true},
		"write before": {func(o *vfs.Open) error { _, err := o.WriteAt([]byte("xxxx"), 0); return err }, false},
		"write after":  {func(o *vfs.Open) error { _, err := o.WriteAt([]byte("xx"), 6); return err }, false},
		"vector":       {func(o *vfs.Open) error { _, err := o.WriteVec([][]byte{{'x'}, {'y'}}, 3); return err }, true},
		"cut":          {func(o *vfs.Open) error { return o.Truncate(5) }, true},
		"end":          {func(o *vfs.Open) error { return o.Truncate(6) }, false},
		"longer":       {func(o *vfs.Open) error { return o.Truncate(100) }, false},
		"sync":         {(*vfs.Open).Sync, false},
		"read":         {func(o *vfs.Open) error { _, err := o.ReadAt(make([]byte, 10), 0); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := tracking(t)
			other := s.mustOpen("f")
			if err := other.Acquire(); err != nil {
				t.Fatal(err)
			}
			var m mark
			w := o.BeginWrite(&m, 4, 2)
			if err := c.do(other); err != nil {
				t.Fatal(err)
			}
			if m.overtaken != c.want {
				t.Errorf("overtaken: %t", m.overtaken)
			}
			m.overtaken = false
			o.EndWrite(w)
			o.EndWrite(w)
			if err := c.do(other); err != nil || m.overtaken {
				t.Errorf("after the end: %t, %v", m.overtaken, err)
			}
			other.Release()
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two writes of the same bytes in progress overtake each other, because the order of their effects is not known. An
// open that empties the file overtakes all.
//
// Source: [OP-112]
func TestWritesInProgressOvertakeEachOther(t *testing.T) {
	s, o := tracking(t)
	var a, b, apart mark
	for _, w := range []vfs.Write{o.BeginWrite(&a, 0, 4), o.BeginWrite(&apart, 4, 1), o.BeginWrite(&b, 3, 1)} {
		defer o.EndWrite(w)
	}
	if !a.overtaken || !b.overtaken || apart.overtaken {
		t.Errorf("%+v, %+v, %+v", a, b, apart)
	}
	empty := s.mustOpen("f", func(r *vfs.OpenRequest) { r.Disposition = vfs.Overwrite })
	if !apart.overtaken {
		t.Error("an open has emptied the file")
	}
	if err := empty.Close(); err != nil {
		t.Error(err)
	}
}

// A write of an open that may only append must never be done again, and overtakes all.
//
// Source: [OP-112]
func TestAppendIsNotDoneAgain(t *testing.T) {
	s, o := tracking(t)
	appends := s.mustOpen("f", access(vfs.AppendData))
	var a, m mark
	defer o.EndWrite(o.BeginWrite(&m, 0, 1))
	appends.EndWrite(appends.BeginWrite(&a, 0, 1))
	if !a.overtaken || !m.overtaken {
		t.Errorf("%+v, %+v", a, m)
	}
	if err := appends.Close(); err != nil {
		t.Error(err)
	}
}

// A write in doubt is done again once, unless it was overtaken.
//
// Source: [OP-112]
func TestWriteInDoubtIsDoneAgainOnce(t *testing.T) {
	s, o := tracking(t)
	var kept, lost mark
	found, first := s.InDoubt(o.ResumeKey(), &kept, 0, 2)
	_, second := s.InDoubt(o.ResumeKey(), &lost, 4, 2)
	if found != o {
		t.Fatalf("%v, not %v", found, o)
	}
	if other, w := s.InDoubt([24]byte{1}, new(mark), 0, 1); other != nil || w != (vfs.Write{}) {
		t.Errorf("an open with another key: %v, %v", other, w)
	}
	if _, err := o.WriteAt([]byte("xx"), 5); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Redo(first, []byte("AB"), 0); n != 2 || err != nil || kept.overtaken {
		t.Errorf("%d, %v, %+v", n, err, kept)
	}
	for _, w := range []vfs.Write{first, second, {}} {
		if n, err := o.Redo(w, []byte("CD"), 4); n != 0 || !errors.Is(err, ntstatus.RequestOutOfSequence) {
			t.Errorf("%v: %d, %v", w, n, err)
		}
		o.EndWrite(w)
	}
	if b, err := os.ReadFile(s.host("f")); string(b) != "AB234xx789" || err != nil || !lost.overtaken {
		t.Errorf("%q, %v", b, err)
	}
}

// Without TrackWrites no write is noted.
func TestWritesAreNotTracked(t *testing.T) {
	s := newSite(t)
	s.put("f")
	o := s.mustOpen("f")
	if w := o.BeginWrite(new(mark), 0, 1); w != (vfs.Write{}) {
		t.Error(w)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}
