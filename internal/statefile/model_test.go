package statefile

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// small are steps that make short tests compact often.
var small = sizes{chunk: 256, least: 300, quantum: 40}

const boot = "0b5f39a2-6a2e-4b73-9b57-6d1b4d2f0c11"

// records is the model of a log.
type records map[Key]string

// change is a change of a batch, or the removal of a group.
type change struct {
	kind  byte
	key   Key
	value string
}

// apply returns the records after changes.
func (r records) apply(list []change) records {
	out := maps.Clone(r)
	for _, c := range list {
		switch c.kind {
		case opPut:
			out[c.key] = c.value
		case opDelete:
			delete(out, c.key)
		default:
			maps.DeleteFunc(out, func(k Key, _ string) bool { return k.Group == c.key.Group })
		}
	}
	return out
}

// has reports whether a group has records.
func (r records) has(group uint64) bool {
	for k := range r {
		if k.Group == group {
			return true
		}
	}
	return false
}

// write makes changes in a log. A removal of a group is alone in its list.
func write(l *Log, list []change) error {
	var b Batch
	for _, c := range list {
		switch c.kind {
		case opPut:
			b.Put(c.key, []byte(c.value))
		case opDelete:
			b.Delete(c.key)
		default:
			return l.Drop(c.key.Group)
		}
	}
	return l.Apply(&b)
}

// contents returns the records of a log.
func contents(l *Log) (records, error) {
	found := records{}
	err := l.Each(func(k Key, value []byte) error {
		if _, twice := found[k]; twice {
			return fmt.Errorf("record %v twice", k)
		}
		found[k] = string(value)
		return nil
	})
	return found, err
}

func drawChanges(t *rapid.T) []change {
	key := rapid.Custom(func(t *rapid.T) Key {
		return Key{Group: rapid.Uint64Range(1, 4).Draw(t, "group"), Item: rapid.Uint64Range(0, 5).Draw(t, "item")}
	})
	if rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
		return []change{{kind: opDrop, key: Key{Group: key.Draw(t, "key").Group}}}
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) change {
		c := change{kind: opPut, key: key.Draw(t, "key")}
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			c.kind = opDelete
			return c
		}
		c.value = strings.Repeat(rapid.StringN(0, 3, 12).Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "times"))
		return c
	}), 1, 4).Draw(t, "changes")
}

// A log has the records of all batches that it accepted, whenever the process dies. The batch in
// progress at the death is there as a whole, or not at all.
func TestDeathLosesNoAcceptedBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, want := newFakeDir(), records{}
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			d.steps = rapid.IntRange(0, 4000).Draw(t, "steps")
			want = live(t, d, want)
		}
		d.steps = -1
		l := mustOpen(t, d)
		if got, err := contents(l); err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
		}
	})
}

// live opens the log, works with it until the process dies, and returns the records that the next life
// must find.
func live(t *rapid.T, d *fakeDir, want records) records {
	l, err := openLog(d, boot, small)
	if errors.Is(err, errKilled) {
		return want
	}
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 60).Draw(t, "batches") {
		if got, err := contents(l); err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
		}
		list := drawChanges(t)
		next := want.apply(list)
		if err := write(l, list); err == nil {
			want = next
			continue
		} else if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		d.steps = -1
		after, err := contents(mustOpen(t, d))
		switch {
		case err != nil:
			t.Fatal(err)
		case cmp.Equal(after, next):
			return next
		case !cmp.Equal(after, want):
			t.Fatalf("the batch in progress:\n%s", cmp.Diff(want, after))
		}
		return want
	}
	return want
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func mustOpen(t fataler, d *fakeDir) *Log {
	t.Helper()
	return mustOpenAs(t, d, boot)
}

// mustOpenAs is mustOpen on a host with another boot id.
func mustOpenAs(t fataler, d *fakeDir, boot string) *Log {
	t.Helper()
	l, err := openLog(d, boot, small)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The process dies at each step of a fixed history, with compactions.
func TestDeathAtEachStep(t *testing.T) {
	var history [][]change
	for i := range 40 {
		k := Key{Group: uint64(i % 2), Item: uint64(i % 3)}
		history = append(history, []change{{opPut, k, strings.Repeat("v", i%8)}, {opPut, Key{k.Group, 9}, fmt.Sprint(i)}})
		if i%5 == 4 {
			history = append(history, []change{{kind: opDelete, key: k}})
		}
		if i%11 == 10 {
			history = append(history, []change{{kind: opDrop, key: k}})
		}
	}
	compactions := uint64(0)
	for steps := 0; ; steps++ {
		d, want := newFakeDir(), records{}
		d.steps = steps
		l, err := openLog(d, boot, small)
		next := want
		for i := 0; err == nil && i < len(history); i++ {
			next = want.apply(history[i])
			if err = write(l, history[i]); err == nil {
				want = next
				compactions = l.Stats().Compactions
			}
		}
		died := d.steps == 0
		d.steps = -1
		got, e := contents(mustOpen(t, d))
		if e != nil || !cmp.Equal(got, want) && !cmp.Equal(got, next) {
			t.Fatalf("death after %d steps: %v\n%s", steps, e, cmp.Diff(want, got))
		}
		if !died && err != nil {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
	}
	if compactions < 2 {
		t.Errorf("%d compactions; the history is too short", compactions)
	}
}

// The file system fails now and then. A batch that fails changes nothing, and later ones succeed.
func TestFailureChangesNothing(t *testing.T) {
	errDisk := errors.New("no space left on device")
	rapid.Check(t, func(t *rapid.T) {
		d, want := newFakeDir(), records{}
		l := mustOpen(t, d)
		rate := 0
		d.fail = func(op string) error {
			if rate > 0 && rapid.IntRange(0, rate).Draw(t, op) == 0 {
				return fmt.Errorf("%s: %w", op, errDisk)
			}
			return nil
		}
		due := map[uint64]bool{} // groups whose removal failed
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			list := drawChanges(t)
			rate = rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "rate")
			err := write(l, list)
			rate = 0
			switch {
			case err == nil:
				for group := range due {
					want = want.apply([]change{{kind: opDrop, key: Key{Group: group}}})
				}
				clear(due)
				want = want.apply(list)
			case !errors.Is(err, errDisk):
				t.Fatal(err)
			case list[0].kind == opDrop:
				due[list[0].key.Group] = true
			}
			got, err := contents(l)
			if err != nil {
				t.Fatal(err)
			}
			for group := range due { // which may have been written before the batch failed
				if removed := want.apply([]change{{kind: opDrop, key: Key{Group: group}}}); !got.has(group) {
					want = removed
					delete(due, group)
				}
			}
			if !cmp.Equal(got, want) {
				t.Fatalf("%s", cmp.Diff(want, got))
			}
			again, err := contents(mustOpen(t, d))
			if err != nil || !cmp.Equal(again, got) {
				t.Fatalf("opened again: %v\n%s", err, cmp.Diff(got, again))
			}
		}
	})
}
