package smbserver

import (
	"math/bits"
	"strings"
	"unicode"

	"lwio/internal/ntstatus"
)

// Wildcards of a search pattern.
//
// Source: [MS-FSA 2.1.4.4]
const (
	wildAny  = '*' // any characters
	wildOne  = '?' // any one character
	dosStar  = '<' // any characters up to and with the last period
	dosOne   = '>' // any one character but a period, or nothing before a period or at the end
	dosDot   = '"' // a period, or nothing at the end
	wildcard = "*?<>\""
)

// maxPattern bounds a search pattern, in characters. A pattern is a name of a file with
// wildcards, and a name has at most 255 characters.
//
// Source: [MS-FSA 2.1.5.6.3], [MS-FSCC 2.1.5.2]
const maxPattern = 255

// pattern matches the names of a directory without regard to case. The time for a name is
// proportional to its length, for any pattern. A nil pattern matches every name. A pattern
// is safe for concurrent use.
//
// A position of the pattern is reached if the characters before it match the name so far.
// match keeps the reached positions as a set of bits, and follows all alternatives at once.
type pattern struct {
	end      int // the position behind the last character
	words    int // of a positions that are in use
	literals map[rune]*positions
	moves    [charClasses]move
	atEnd    optional
}

// charClass is the class of a character of a name. The wildcards distinguish nothing else.
type charClass int

const (
	otherBefore charClass = iota // no period, and a period follows or the name has none
	otherAfter                   // no period, behind the last one
	period                       // a period before the last one
	lastPeriod
	charClasses
)

// move is the effect of a character of one class, without the literals of the pattern.
type move struct {
	optional           // the positions that may be left without the character
	stay     positions // the positions that the character does not leave
	pass     positions // the positions from which the character leads to the next one
}

// newPattern compiles a search pattern. An empty one matches everything.
//
// Errors: OBJECT_NAME_INVALID for a pattern that is longer than any name.
func newPattern(s string) (*pattern, ntstatus.Status) {
	if s == "" || s == "*" {
		return nil, ntstatus.Success
	}
	m := &pattern{literals: make(map[rune]*positions)}
	var wild struct{ any, one, star, dosOne, dot positions }
	for _, r := range s {
		if m.end == maxPattern {
			return nil, ntstatus.ObjectNameInvalid
		}
		switch r {
		case wildAny:
			wild.any.add(m.end)
		case wildOne:
			wild.one.add(m.end)
		case dosStar:
			wild.star.add(m.end)
		case dosOne:
			wild.dosOne.add(m.end)
		case dosDot:
			wild.dot.add(m.end)
		default:
			m.literal(unicode.ToUpper(r)).add(m.end)
		}
		m.end++
	}
	m.words = m.end/64 + 1
	always := wild.any.or(wild.star)
	beforeDot := always.or(wild.dosOne)
	m.atEnd = newOptional(beforeDot.or(wild.dot))
	m.moves = [charClasses]move{
		otherBefore: {newOptional(always), always, wild.one.or(wild.dosOne)},
		otherAfter:  {newOptional(always), wild.any, wild.one.or(wild.dosOne)},
		period:      {newOptional(beforeDot), always, wild.one.or(wild.dot)},
		lastPeriod:  {newOptional(beforeDot), wild.any, wild.one.or(wild.dot).or(wild.star)},
	}
	return m, ntstatus.Success
}

// literal returns the positions of a character in upper case.
func (m *pattern) literal(r rune) *positions {
	if m.literals[r] == nil {
		m.literals[r] = new(positions)
	}
	return m.literals[r]
}

// hasWildcard reports whether s can match more than one name.
func hasWildcard(s string) bool { return strings.ContainsAny(s, wildcard) }

// match reports whether name matches.
//
// Source: [MS-FSA 2.1.4.4]
func (m *pattern) match(name string) bool {
	if m == nil {
		return true
	}
	lastDot := strings.LastIndexByte(name, '.')
	var on positions
	on.add(0)
	for i, r := range name {
		class := otherAfter
		switch {
		case i == lastDot:
			class = lastPeriod
		case r == '.':
			class = period
		case i < lastDot || lastDot < 0:
			class = otherBefore
		}
		m.skip(&on, &m.moves[class].optional)
		if !m.step(&on, &m.moves[class], m.literals[unicode.ToUpper(r)]) {
			return false
		}
	}
	m.skip(&on, &m.atEnd)
	return on.has(m.end)
}

// step replaces the reached positions by those that are reached behind one more character.
// It reports whether there are any.
func (m *pattern) step(on *positions, by *move, literal *positions) bool {
	if literal == nil {
		literal = new(positions)
	}
	var carry, some uint64
	for w := range m.words {
		passed := on[w] & (by.pass[w] | literal[w])
		on[w] = on[w]&by.stay[w] | passed<<1 | carry
		carry = passed >> 63
		some |= on[w]
	}
	return some != 0
}

// skip adds the positions that are reached without a character.
//
// In the bits of a run and of the position before it, the subtraction changes the lowest
// reached one and the bits below it. The unchanged bits of the run are above a reached
// position. The last bit of the run is set for the subtraction, so that it ends there.
func (m *pattern) skip(on *positions, o *optional) {
	var difference, borrow uint64
	for w := range m.words {
		bounded := on[w] | o.last[w]
		difference, borrow = bits.Sub64(bounded, o.before[w], borrow)
		on[w] |= o.behind[w] &^ (difference ^ bounded)
	}
}

// optional has the runs of characters of the pattern that may match nothing.
type optional struct {
	before positions // the position before each run
	behind positions // the positions behind each character of a run
	last   positions // the position behind each run
}

// newOptional finds the runs.
func newOptional(at positions) (o optional) {
	for i := range maxPattern {
		switch is, was := at.has(i), i > 0 && at.has(i-1); {
		case is && !was:
			o.before.add(i)
		case was && !is:
			o.last.add(i)
		}
		if at.has(i) {
			o.behind.add(i + 1)
		}
	}
	if at.has(maxPattern - 1) {
		o.last.add(maxPattern)
	}
	return o
}

// positions is a set of positions of a pattern, from 0 to maxPattern.
type positions [maxPattern/64 + 1]uint64

func (p *positions) add(i int)      { p[i/64] |= 1 << (i % 64) }
func (p *positions) has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }

func (p positions) or(q positions) positions {
	for i := range p {
		p[i] |= q[i]
	}
	return p
}
