package filemodel

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Read is the result of a read: Data at Off, and whether the file ends after it.
type Read struct {
	Off  int64
	Data []byte
	EOF  bool
}

// Check returns an error if a read that was concurrent with the writes during cannot have that
// result. Without such writes and late operations, the model learns from the result.
func (f *File) Check(r Read, during ...Write) error {
	if err := f.during(during).check(r); err != nil {
		return err
	}
	if len(during) == 0 && len(f.late) == 0 {
		f.learn(r)
	}
	return nil
}

// during is the model while writes are in flight; each of them may be done or not.
func (f *File) during(writes []Write) *File {
	if len(writes) == 0 {
		return f
	}
	unsure := make([]change, 0, len(writes))
	for _, w := range writes {
		if len(w.Data) > 0 {
			unsure = append(unsure, change{w.Off, w.Off + int64(len(w.Data)), source{off: w.Off, data: w.Data}})
		}
	}
	seen := &File{spans: slices.Clone(f.spans), late: f.late}
	seen.change(nil, unsure)
	return seen
}

// shown is the number of bytes that an error shows.
const shown = 32

func (f *File) check(r Read) error {
	end := r.Off + int64(len(r.Data))
	for i := range f.spans {
		s := &f.spans[i]
		if r.EOF && s.lo <= end && end < s.hi && !s.mayEnd() {
			return fmt.Errorf("the file ends at %d, where it has %v", end, s.at(end))
		}
		lo, hi := max(s.lo, r.Off), min(s.hi, end)
		if lo >= hi {
			continue
		}
		if at, ok := s.holds(lo, r.Data[lo-r.Off:hi-r.Off]); !ok {
			return fmt.Errorf("byte %d is %#x, not %v; the %d bytes at %d have % x there", at, r.Data[at-r.Off], s.at(at),
				len(r.Data), r.Off, r.Data[at-r.Off:][:min(shown, end-at)])
		}
	}
	return nil
}

// holds reports whether each byte of p may be in the span from offset lo on. If not, it
// returns the offset of the first impossible byte.
func (s *span) holds(lo int64, p []byte) (int64, bool) {
	for i := range s.may {
		src := &s.may[i]
		if src.kind == fromData && bytes.Equal(p, src.data[lo-src.off:][:len(p)]) {
			return 0, true
		}
	}
	for i, b := range p {
		off := lo + int64(i)
		if !slices.ContainsFunc(s.may, func(src source) bool { return src.kind != absent && src.at(off) == b }) {
			return off, false
		}
	}
	return 0, true
}

// at is the byte that the source has at an offset of the file.
func (s *source) at(off int64) byte {
	if s.kind == hole {
		return 0
	}
	return s.data[off-s.off]
}

// learn excludes contents that contradict a read.
func (f *File) learn(r Read) {
	end := r.Off + int64(len(r.Data))
	if r.EOF {
		for i := f.split(end); i < len(f.spans); i++ {
			f.spans[i].may = []source{{kind: absent}}
		}
	}
	if len(r.Data) == 0 {
		return
	}
	f.present(end)
	for i := f.split(r.Off); i < len(f.spans) && f.spans[i].lo < end; i++ {
		if s := &f.spans[i]; len(s.may) > 1 {
			s.may = []source{{off: s.lo, data: slices.Clone(r.Data[s.lo-r.Off : s.hi-r.Off])}}
		}
	}
}

// CheckSize returns an error if the file cannot have a size, and learns from it as Check does.
func (f *File) CheckSize(size int64, during ...Write) error {
	seen := f.during(during)
	if err := seen.check(Read{Off: size, EOF: true}); err != nil {
		return err
	}
	last, _ := slices.BinarySearchFunc(seen.spans, size, func(s span, size int64) int { return cmp.Compare(s.hi, size) })
	if s := &seen.spans[last]; size > 0 && len(s.may) == 1 && s.mayEnd() {
		return fmt.Errorf("the size is %d, where it cannot be more than %d", size, f.Size())
	}
	if len(during) == 0 && len(f.late) == 0 {
		f.learn(Read{Off: size, EOF: true})
		f.present(size)
	}
	return nil
}

// present excludes an end of the file before size.
func (f *File) present(size int64) {
	f.split(size)
	for i := range f.spans {
		if s := &f.spans[i]; s.hi <= size && len(s.may) > 1 {
			s.mustExist()
		}
	}
}

// Size is the largest size that the file may have.
func (f *File) Size() int64 {
	for i := len(f.spans) - 1; i >= 0; i-- {
		if s := &f.spans[i]; len(s.may) > 1 || s.may[0].kind != absent {
			return s.hi
		}
	}
	return 0
}

// at lists the possible contents at an offset.
func (s *span) at(off int64) (list []string) {
	for i := range s.may {
		switch src := &s.may[i]; src.kind {
		case absent:
			list = append(list, "the end")
		case hole:
			list = append(list, "a hole")
		case fromData:
			list = append(list, fmt.Sprintf("%#x of the write of %d bytes at %d", src.at(off), len(src.data), src.off))
		}
	}
	return list
}
