package statefile

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filled returns a directory with a log of one file, and its records.
func filled(t fataler) (*fakeDir, records) {
	t.Helper()
	d, want := newFakeDir(), records{}
	l := mustOpen(t, d)
	for i := range uint64(6) {
		list := []change{{opPut, Key{i, 1}, "first"}, {opPut, Key{i, 2}, "second"}}
		if err := write(l, list); err != nil {
			t.Fatal(err)
		}
		want = want.apply(list)
	}
	if len(d.files) != 2 {
		t.Fatalf("files: %v", slices.Collect(maps.Keys(d.files)))
	}
	return d, want
}

// clone returns a copy of d.
func (d *fakeDir) clone() *fakeDir {
	c := newFakeDir()
	for name, b := range d.files {
		c.files[name] = slices.Clone(b)
	}
	return c
}

// Each changed bit of a file is found, with the name of the file and an offset at or before it.
func TestDamageIsFound(t *testing.T) {
	d, _ := filled(t)
	used := mustOpen(t, d).current.tail
	for _, name := range []string{"log.1", "boot"} {
		size := int64(len(d.files[name]))
		if name == "log.1" {
			size = used
		}
		for i := range size {
			for bit := range 8 {
				c := d.clone()
				c.files[name][i] ^= 1 << bit
				_, err := openLog(c, boot, small)
				var damage *CorruptError
				switch {
				case name == "boot" && err == nil: // a boot id of another boot, so the records are removed; or another instance
				case name == "log.1" && i >= 8 && i < 12 && err != nil: // of another version
				case !errors.As(err, &damage):
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				case damage.File != "state/"+name || damage.Offset > i || damage.Error() == "":
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				}
			}
		}
	}
}

// Bytes behind the last frame are damage, unless they are of one cut frame.
func TestBytesBehindTheEndAreDamage(t *testing.T) {
	d, want := filled(t)
	tail := int(mustOpen(t, d).current.tail)
	d.files["log.1"] = append(d.files["log.1"][:tail], make([]byte, 2*maxFrame)...)
	for at, damaged := range map[int]bool{
		tail: true, tail + 7: true, tail + 8: false, tail + 100: false, tail + maxFrame - 1: false,
		tail + maxFrame: true, tail + 2*maxFrame - 1: true,
	} {
		c := d.clone()
		c.files["log.1"][at] = 7
		l, err := openLog(c, boot, small)
		var damage *CorruptError
		if errors.As(err, &damage) != damaged {
			t.Errorf("offset %d, tail %d: %v", at, tail, err)
		}
		if damaged {
			continue
		}
		more := []change{{opPut, Key{77, 1}, "x"}}
		if err := write(l, more); err != nil {
			t.Fatal(err)
		}
		if got, err := contents(mustOpen(t, c)); err != nil || !cmp.Equal(got, want.apply(more)) {
			t.Fatalf("offset %d: after a further batch: %v\n%s", at, err, cmp.Diff(want.apply(more), got))
		}
	}
}

// A file that was made shorter is damaged.
func TestShorterFileIsDamaged(t *testing.T) {
	d, _ := filled(t)
	tail := int(mustOpen(t, d).current.tail)
	for cut := tail - 40; cut < tail; cut++ {
		c := d.clone()
		c.files["log.1"] = c.files["log.1"][:cut]
		_, err := openLog(c, boot, small)
		var damage *CorruptError
		if !errors.As(err, &damage) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// Each beginning of a file is refused, also if it ends between two batches, by itself or with zeros behind it. An empty
// file is one that a crash has left before its header was written.
func TestBeginningOfFile(t *testing.T) {
	d, _ := filled(t)
	whole := d.files["log.1"]
	for n := range int(mustOpen(t, d).current.tail) {
		zeros := append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...)
		for what, content := range map[string][]byte{"cut": whole[:n], "zeros": zeros} {
			c := d.clone()
			c.files["log.1"] = content
			l, err := openLog(c, boot, small)
			var damage *CorruptError
			switch {
			case bytes.Equal(content, whole): // the last batch ends with zeros
			case n == 0 && err == nil:
				if got, err := contents(l); err != nil || len(got) > 0 {
					t.Errorf("an empty file, %s: %v, %v", what, got, err)
				}
			case !errors.As(err, &damage) || !Broken(err):
				t.Fatalf("%s at %d: %v", what, n, err)
			}
		}
	}
}

// Records of before a reboot are removed, even from damaged files.
func TestRebootRemovesRecords(t *testing.T) {
	d, _ := filled(t)
	first := mustOpen(t, d).Instance()
	if l := mustOpen(t, d); l.Rebooted() || l.Instance() != first {
		t.Error("a reboot is reported after a restart of the process, or another instance")
	}
	clear(d.files["log.1"][20:])
	l, err := openLog(d, "another", small)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := contents(l); err != nil || len(got) != 0 || !l.Rebooted() {
		t.Errorf("after a reboot: %v, %v, %v", got, err, l.Rebooted())
	}
	if now := l.Instance(); now == first || now == [16]byte{} || now != mustOpenAs(t, d, "another").Instance() {
		t.Errorf("after a reboot the instance %x is %x", first, now)
	}
	if l, err := openLog(d, "another", small); err != nil || l.Rebooted() {
		t.Errorf("the second start: %v", err)
	}
}

// Missing and surplus files are found.
func TestOtherFilesAreDamage(t *testing.T) {
	for what, change := range map[string]func(files map[string][]byte){
		"no boot id":      func(f map[string][]byte) { delete(f, "boot") },
		"empty boot id":   func(f map[string][]byte) { f["boot"] = nil },
		"a gap":           func(f map[string][]byte) { f["log.3"] = f["log.1"] },
		"three files":     func(f map[string][]byte) { f["log.2"], f["log.3"] = f["log.1"], f["log.1"] },
		"a copy":          func(f map[string][]byte) { f["log.2"] = f["log.1"] },
		"an empty first":  func(f map[string][]byte) { f["log.2"], f["log.1"] = headerOf(2), nil },
		"a cut before":    func(f map[string][]byte) { f["log.2"], f["log.1"] = headerOf(2), f["log.1"][:100] },
		"another version": func(f map[string][]byte) { f["log.1"][8] = 3 },
		"a later one alone": func(f map[string][]byte) {
			f["log.2"] = nil
			delete(f, "log.1")
		},
	} {
		d, _ := filled(t)
		change(d.files)
		before := d.clone()
		if l, err := openLog(d, boot, small); err == nil {
			t.Errorf("%s: opened with %+v", what, l.Stats())
		}
		if !maps.EqualFunc(before.files, d.files, bytes.Equal) {
			t.Errorf("%s: Open has changed the files", what)
		}
	}
}

// Any bytes as a file are refused with a place, or make a log that works.
func FuzzOpen(f *testing.F) {
	d, _ := filled(f)
	f.Add(d.files["log.1"], []byte(nil))
	f.Add(d.files["log.1"][:100], headerOf(2))
	f.Add([]byte(nil), []byte(nil))
	f.Add(append(headerOf(1), seal(append(make([]byte, frameHeader), 9))...), headerOf(2))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newFakeDir()
		d.files["boot"] = []byte(boot + "\n")
		d.files["log.1"] = first
		if len(second) > 0 {
			d.files["log.2"] = second
		}
		l, err := openLog(d, boot, small)
		if err != nil {
			if err.Error() == "" {
				t.Error("no text")
			}
			return
		}
		want, err := contents(l)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(40) {
			list := []change{{opPut, Key{i % 3, i % 4}, "value"}, {opDelete, Key{i % 3, i % 5}, ""}}
			if err := write(l, list); err != nil {
				t.Fatal(err)
			}
			want = want.apply(list)
		}
		if got, err := contents(mustOpen(t, d)); err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
		}
	})
}
