// Package filemodel models the possible contents of a file after operations that overlap in time
// or whose outcome is unknown. Tests compare the results of reads with it.
//
// The model treats each byte on its own: two bytes may always come from different operations.
package filemodel

import (
	"math"
	"slices"
)

// Outcome is the knowledge about an operation, or about the rest of it, that did not succeed.
type Outcome uint8

// The outcomes.
const (
	// Not done.
	Not Outcome = iota
	// Maybe done, in part or as a whole; it has no effect from now on.
	Maybe
	// Late: maybe done, and may still take effect, until File.Settle.
	Late
)

// Write is a write that has been tried.
type Write struct {
	Off  int64
	Data []byte // must not change any more
	// Done is the number of bytes from the beginning that are written for certain.
	Done int
	// Rest is the outcome of the other bytes.
	Rest Outcome
	// Owner identifies the operation for File.Settle, if Rest is Late.
	Owner any
}

// File is the model of a file, empty at first. It is for one goroutine at a time.
type File struct {
	spans []span // without a gap, from 0 to infinity
	late  []late
}

// span is a part of the file whose bytes come from the same sources.
type span struct {
	lo, hi int64
	may    []source
}

// source is a possible origin of a byte: data that begins at the offset off of the file; or,
// without data, the end of the file before it, or a hole.
type source struct {
	kind sourceKind
	off  int64
	data []byte
}

type sourceKind uint8

const (
	fromData sourceKind = iota
	absent
	hole
)

// late is a write, or a change of size, that may still take effect.
type late struct {
	change
	owner any
}

// change is the effect of an operation: a new size of the file, or data.
type change struct {
	off, end int64
	src      source // absent for a size
}

// New returns the model of an empty file.
func New() *File {
	return &File{spans: []span{{0, math.MaxInt64, []source{{kind: absent}}}}}
}

// split makes a span begin at off, and returns its index.
func (f *File) split(off int64) int {
	i, found := slices.BinarySearchFunc(f.spans, off, func(s span, off int64) int {
		switch {
		case s.lo > off:
			return 1
		case s.lo < off:
			return -1
		}
		return 0
	})
	if found || off == math.MaxInt64 {
		return i
	}
	before := &f.spans[i-1]
	after := span{off, before.hi, slices.Clone(before.may)}
	before.hi = off
	f.spans = slices.Insert(f.spans, i, after)
	return i
}

// Apply applies writes that were tried at the same time. Where several were done, the order is
// unknown.
func (f *File) Apply(writes ...Write) {
	var sure, unsure []change
	for _, w := range writes {
		src := source{off: w.Off, data: w.Data}
		done, end := w.Off+int64(w.Done), w.Off+int64(len(w.Data))
		if w.Done > 0 {
			sure = append(sure, change{w.Off, done, src})
		}
		if w.Rest == Not || done == end {
			continue
		}
		unsure = append(unsure, change{done, end, src})
		if w.Rest == Late {
			f.late = append(f.late, late{change{done, end, src}, w.Owner})
		}
	}
	f.change(sure, unsure)
}

// Truncate sets the size, for certain if done, else with the outcome rest.
func (f *File) Truncate(size int64, done bool, rest Outcome, owner any) {
	c := change{size, math.MaxInt64, source{kind: absent}}
	switch {
	case done:
		f.change([]change{c}, nil)
	case rest == Not:
		return
	default:
		f.change(nil, []change{c})
	}
	if !done && rest == Late {
		f.late = append(f.late, late{c, owner})
	}
}

// Settle ends the late operations of the owners for which gone returns true: they take no effect
// from now on.
func (f *File) Settle(gone func(owner any) bool) {
	f.late = slices.DeleteFunc(f.late, func(l late) bool { return gone(l.owner) })
}

// change applies changes. At each byte one of the sure changes is the last, unless an
// unsure or a late change comes after it.
func (f *File) change(sure, unsure []change) {
	for _, l := range f.late {
		unsure = append(unsure, l.change)
	}
	all := slices.Concat(sure, unsure)
	for _, c := range all {
		f.split(c.off)
		f.split(c.end)
	}
	for i := range f.spans {
		s := &f.spans[i]
		before := s.may
		s.may = nil
		for _, c := range sure {
			if c.covers(s) {
				s.add(c.src)
			}
		}
		if s.may == nil {
			s.may = before
			for _, c := range sure {
				if c.extends(s) {
					s.fill()
				}
			}
		}
		// One change, even a sure one, may make a hole of bytes that another change cuts
		// off.
		for _, c := range unsure {
			s.addPossible(c)
		}
		for _, c := range all {
			s.addPossible(c)
		}
	}
}

func (c *change) covers(s *span) bool { return c.off <= s.lo && s.hi <= c.end }

// extends reports whether the span has data or a hole, and not the end of the file, after the
// change.
func (c *change) extends(s *span) bool { return s.hi <= c.off }

// addPossible adds the possible effects of the change on the span.
func (s *span) addPossible(c change) {
	covers := c.covers(s)
	if covers {
		s.add(c.src)
	}
	// The last part of data may be written without the part before it.
	if s.mayEnd() && (c.extends(s) || covers && c.src.kind == fromData) {
		s.add(source{kind: hole})
	}
}

func (s *span) add(src source) {
	if !slices.ContainsFunc(s.may, src.same) {
		s.may = append(s.may[:len(s.may):len(s.may)], src)
	}
}

// same reports whether two sources are the same memory.
func (s source) same(o source) bool {
	return s.kind == o.kind && s.off == o.off && len(s.data) == len(o.data) && (len(s.data) == 0 || &s.data[0] == &o.data[0])
}

// mayEnd reports whether the file may end before the span.
func (s *span) mayEnd() bool { return slices.ContainsFunc(s.may, isAbsent) }

func isAbsent(src source) bool { return src.kind == absent }

// fill replaces the end of the file by a hole.
func (s *span) fill() {
	if s.mayEnd() {
		s.mustExist()
		s.add(source{kind: hole})
	}
}

// mustExist excludes an end of the file before the span.
func (s *span) mustExist() { s.may = slices.DeleteFunc(slices.Clone(s.may), isAbsent) }
