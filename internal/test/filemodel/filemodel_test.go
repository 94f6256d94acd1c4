package filemodel

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func write(off int64, data string, done int, rest Outcome) Write {
	return Write{Off: off, Data: []byte(data), Done: done, Rest: rest, Owner: "late"}
}

func done(off int64, data string) Write { return write(off, data, len(data), Not) }

// Reads that are possible after some operations, and reads that are not.
func TestCheckAfterOperations(t *testing.T) {
	type reads map[string]bool // content from 0 to the end of the file: possible or not
	for name, c := range map[string]struct {
		do   func(f *File)
		want reads
	}{
		"nothing": {func(*File) {}, reads{"": true, "a": false}},
		"done":    {func(f *File) { f.Apply(done(0, "ab")) }, reads{"ab": true, "a": false, "abc": false, "ax": false}},
		"a hole":  {func(f *File) { f.Apply(done(2, "x")) }, reads{"\x00\x00x": true, "": false, "abx": false}},
		"refused": {func(f *File) { f.Apply(write(0, "ab", 0, Not)) }, reads{"": true, "ab": false}},
		"in part": {func(f *File) { f.Apply(write(0, "ab", 1, Not)) }, reads{"a": true, "ab": false, "": false}},
		"maybe": {func(f *File) { f.Apply(done(0, "ab")); f.Apply(write(1, "xy", 0, Maybe)) },
			reads{"ab": true, "axy": true, "aby": true, "bxy": false, "ax": true}},
		"the end of it":       {func(f *File) { f.Apply(write(0, "abc", 0, Maybe)) }, reads{"\x00\x00c": true, "abc": true, "ab": true, "\x01bc": false}},
		"maybe behind a hole": {func(f *File) { f.Apply(write(1, "x", 0, Maybe)) }, reads{"": true, "\x00x": true, "ax": false}},
		"over a maybe": {func(f *File) { f.Apply(write(0, "ab", 0, Maybe)); f.Apply(done(0, "xy")) },
			reads{"xy": true, "ay": false}},
		"over a late one": {func(f *File) { f.Apply(write(0, "ab", 0, Late)); f.Apply(done(0, "xy")) },
			reads{"xy": true, "ay": true, "ab": true, "zb": false, "": false}},
		"over one that came, or not": {func(f *File) {
			f.Apply(write(0, "ab", 0, Late))
			f.Settle(func(owner any) bool { return owner == "late" })
			f.Apply(done(0, "xy"))
		}, reads{"xy": true, "ay": false}},
		"at once": {func(f *File) { f.Apply(done(0, "abc"), done(1, "xyz")) },
			reads{"abcz": true, "axyz": true, "axcz": true, "abc": false, "xbcz": false}},
		"shorter":   {func(f *File) { f.Apply(done(0, "abc")); f.Truncate(1, true, Not, nil) }, reads{"a": true, "abc": false}},
		"longer":    {func(f *File) { f.Truncate(2, true, Not, nil) }, reads{"\x00\x00": true, "": false}},
		"not cut":   {func(f *File) { f.Apply(done(0, "ab")); f.Truncate(0, false, Not, nil) }, reads{"ab": true, "": false}},
		"maybe cut": {func(f *File) { f.Apply(done(0, "ab")); f.Truncate(1, false, Maybe, nil) }, reads{"ab": true, "a": true, "": false}},
		"cut late": {func(f *File) { f.Truncate(1, false, Late, nil); f.Apply(done(0, "ab")) },
			reads{"ab": true, "a": true, "": false}},
		"cut late, then longer": {func(f *File) {
			f.Apply(done(0, "abc"))
			f.Truncate(1, false, Late, "late")
			f.Apply(write(3, "d", 0, Late))
		}, reads{"abc": true, "abcd": true, "a": true, "a\x00\x00d": true, "x\x00\x00d": false}},
	} {
		for content, possible := range c.want {
			f := New()
			c.do(f)
			if err := f.Check(Read{Data: []byte(content), EOF: true}); (err == nil) != possible {
				t.Errorf("%s: %q: %v", name, content, err)
			}
			if size := int64(len(content)); possible && f.CheckSize(size) != nil {
				t.Errorf("%s: size %d: %v", name, size, f.CheckSize(size))
			}
		}
	}
}

// Bytes that were read once must stay, unless a late operation may take effect.
func TestCheckLearnsFromReads(t *testing.T) {
	for _, rest := range []Outcome{Maybe, Late} {
		f := New()
		f.Apply(done(0, "abc"))
		f.Apply(write(0, "xyz", 0, rest))
		if err := f.Check(Read{Data: []byte("xbz")}); err != nil {
			t.Error(err)
		}
		if err := f.Check(Read{Data: []byte("ayz")}); (err == nil) != (rest == Late) {
			t.Errorf("outcome %d: another content than at first: %v", rest, err)
		}
	}
	f := New()
	f.Truncate(10, false, Maybe, nil)
	if err := f.CheckSize(10); err != nil {
		t.Error(err)
	}
	if f.Check(Read{EOF: true}) == nil || f.CheckSize(0) == nil || f.CheckSize(11) == nil || f.CheckSize(9) == nil {
		t.Error("the size changed again")
	}
	if f.Size() != 10 {
		t.Error(f.Size())
	}
}

// A read concurrent with writes may see any of them, and the model does not learn from it.
func TestCheckDuringWrites(t *testing.T) {
	f := New()
	f.Apply(done(0, "ab"))
	beside := done(1, "xy")
	for data, possible := range map[string]bool{"ab": true, "axy": true, "ax": true, "aby": true, "xxy": false} {
		if err := f.Check(Read{Data: []byte(data), EOF: true}, beside); (err == nil) != possible {
			t.Errorf("%q: %v", data, err)
		}
		if err := f.CheckSize(int64(len(data)), beside); err != nil {
			t.Errorf("%d: %v", len(data), err)
		}
	}
	if f.CheckSize(1, beside) == nil || f.CheckSize(4, beside) == nil {
		t.Error("any size will do")
	}
	if err := f.Check(Read{Data: []byte("ab"), EOF: true}); err != nil {
		t.Error(err)
	}
}

// The model agrees with a file to which the operations are applied one after another, in any of
// the possible orders, and refuses every other byte.
func TestModelAgreesWithFile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := New()
		var file []byte
		type pending struct {
			do    func()
			owner int
		}
		var waiting []pending
		put := func(off int64, p []byte) {
			if grow := int(off) + len(p) - len(file); grow > 0 && len(p) > 0 {
				file = append(file, make([]byte, grow)...)
			}
			copy(file[min(int(off), len(file)):], p)
		}
		resize := func(n int) {
			if n <= len(file) {
				file = slices.Clone(file[:n])
			} else {
				file = append(slices.Clone(file), make([]byte, n-len(file))...)
			}
		}
		small := rapid.IntRange(0, 30)
		outcome := rapid.SampledFrom([]Outcome{Not, Maybe, Late})
		happens := rapid.Bool()
		// try applies an operation with some outcome.
		try := func(rt *rapid.T, rest Outcome, do func()) {
			switch {
			case rest == Late:
				waiting = append(waiting, pending{do, small.Draw(rt, "owner") % 2})
			case rest == Maybe && happens.Draw(rt, "happens"):
				do()
			}
		}
		// arrive applies a late operation.
		arrive := func(rt *rapid.T) {
			if len(waiting) > 0 && happens.Draw(rt, "late") {
				i := rapid.IntRange(0, len(waiting)-1).Draw(rt, "which")
				waiting[i].do()
				waiting = slices.Delete(waiting, i, i+1)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				var ws []Write
				for range rapid.IntRange(1, 3).Draw(rt, "writes") {
					w := Write{Off: int64(small.Draw(rt, "off")), Data: rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(rt, "data"), Rest: outcome.Draw(rt, "rest")}
					w.Done = rapid.IntRange(0, len(w.Data)).Draw(rt, "done")
					half := w.Done / 2
					put(w.Off, w.Data[:half])
					arrive(rt)
					put(w.Off+int64(half), w.Data[half:w.Done])
					at := len(waiting)
					part := rapid.IntRange(w.Done, len(w.Data)).Draw(rt, "comes in part from")
					try(rt, w.Rest, func() { put(w.Off+int64(part), w.Data[part:]) })
					if len(waiting) > at {
						w.Owner = waiting[at].owner
					}
					ws = append(ws, w)
				}
				f.Apply(ws...)
			},
			"truncate": func(rt *rapid.T) {
				size, sure, rest := small.Draw(rt, "size"), happens.Draw(rt, "sure"), outcome.Draw(rt, "rest")
				var owner any
				if sure {
					resize(size)
				} else {
					at := len(waiting)
					try(rt, rest, func() { resize(size) })
					if len(waiting) > at {
						owner = waiting[at].owner
					}
				}
				f.Truncate(int64(size), sure, rest, owner)
			},
			"late": arrive,
			"settle": func(rt *rapid.T) {
				owner := small.Draw(rt, "owner") % 2
				waiting = slices.DeleteFunc(waiting, func(p pending) bool {
					if p.owner == owner && happens.Draw(rt, "comes") {
						p.do()
					}
					return p.owner == owner
				})
				f.Settle(func(o any) bool { return o == owner })
			},
			"read": func(rt *rapid.T) {
				off, n := small.Draw(rt, "off"), small.Draw(rt, "n")
				r := readOf(file, off, n)
				if err := f.Check(r); err != nil {
					rt.Fatalf("%+v: %v", r, err)
				}
			},
			"size": func(rt *rapid.T) {
				if err := f.CheckSize(int64(len(file))); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				if int64(len(file)) > f.Size() {
					rt.Fatalf("%d bytes, not more than %d", len(file), f.Size())
				}
			},
		})
		f.Settle(func(any) bool { return true })
		r := readOf(file, 0, len(file)+1)
		if err := f.Check(r); err != nil {
			rt.Fatal(err)
		}
		if len(file) == 0 {
			return
		}
		r.Data = bytes.Clone(r.Data)
		r.Data[rapid.IntRange(0, len(file)-1).Draw(rt, "wrong")] ^= 1
		if f.Check(r) == nil {
			rt.Fatal("the change of a byte that was read is not detected")
		}
	})
}

func readOf(file []byte, off, n int) Read {
	from := min(off, len(file))
	to := min(off+n, len(file))
	return Read{Off: int64(off), Data: file[from:max(from, to)], EOF: off+n > len(file)}
}
