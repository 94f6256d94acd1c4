package writelog

import (
	"encoding/binary"
	"math"
	"sync/atomic"
)

// Record is a write of a connection.
type Record struct {
	// Number is the number of the write among the messages of its client, at least 0.
	Number int64
	// Key is the resume key of the open, Off the place in its file and Length the number of bytes.
	Key    [24]byte
	Off    int64
	Length uint32
	// Overtaken reports that the write must not be done again.
	Overtaken bool
	// Done reports that the write has a result: Status and Info.
	Done         bool
	Status, Info uint32
}

// The words of a slot.
const (
	wordNumber = iota
	wordResult
	wordOff
	wordLength
	wordKey
	wordCheck = wordKey + 3
	slotWords = wordCheck + 1
	slotSize  = 8 * slotWords
)

const (
	noResult  = math.MaxUint64
	overtaken = 1 << 63 // in wordLength
)

// slot is the memory of a record.
type slot [slotWords]uint64

// encode returns the words of a record.
func (r *Record) encode() (s slot) {
	s[wordNumber] = uint64(r.Number) + 1
	s[wordResult] = noResult
	if r.Done {
		s[wordResult] = resultOf(r.Status, r.Info)
	}
	s[wordOff], s[wordLength] = uint64(r.Off), uint64(r.Length)
	for i := range 3 {
		s[wordKey+i] = binary.NativeEndian.Uint64(r.Key[8*i:])
	}
	s[wordCheck] = s.check()
	if r.Overtaken {
		s[wordLength] |= overtaken
	}
	return s
}

func resultOf(status, info uint32) uint64 { return uint64(status)<<32 | uint64(info) }

// check returns a sum of the words that do not change.
func (s *slot) check() uint64 {
	// The factors are odd, so the change of one word changes the sum.
	return 0x9E3779B97F4A7C15 + s[wordNumber]*0xBF58476D1CE4E5B9 + s[wordOff]*0x94D049BB133111EB + (s[wordLength]&^overtaken)*0xD6E8FEB86659FD93 +
		s[wordKey]*0xA0761D6478BD642F + s[wordKey+1]*0xE7037ED1A0B428DB + s[wordKey+2]*0x8EBC6AF09C88C6E3
}

// decode returns the record of a slot. It reports false for a slot that no Record has.
func (s *slot) decode() (r Record, ok bool) {
	length := s[wordLength] &^ overtaken
	if s[wordNumber] == 0 || s[wordNumber]-1 > math.MaxInt64 || length > math.MaxUint32 || s[wordCheck] != s.check() {
		return Record{}, false
	}
	r = Record{
		Number: int64(s[wordNumber] - 1), Off: int64(s[wordOff]), Length: uint32(length), Overtaken: s[wordLength]&overtaken != 0,
	}
	for i := range 3 {
		binary.NativeEndian.PutUint64(r.Key[8*i:], s[wordKey+i])
	}
	if x := s[wordResult]; x != noResult {
		r.Done, r.Status, r.Info = true, uint32(x>>32), uint32(x)
	}
	return r, true
}

// begin stores a record. Until the last store the slot is empty. A process that is killed has done its stores up to some
// point in the order of the program, so only the first and the last of them have to be atomic.
func (s *slot) begin(r *Record) {
	x := r.encode()
	atomic.StoreUint64(&s[wordNumber], 0)
	for i := slotWords - 1; i > wordNumber; i-- {
		s[i] = x[i]
	}
	atomic.StoreUint64(&s[wordNumber], x[wordNumber])
}
