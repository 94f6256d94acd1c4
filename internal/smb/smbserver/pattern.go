package smbserver

import (
	"strings"
	"unicode"
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

// pattern matches the names of a directory without regard to case. It is safe for concurrent
// use.
type pattern struct {
	p   []rune // upper case
	all bool
}

// newPattern compiles a search pattern. An empty one matches everything.
func newPattern(s string) pattern {
	if s == "" || s == "*" {
		return pattern{all: true}
	}
	p := []rune(s)
	for i, r := range p {
		p[i] = unicode.ToUpper(r)
	}
	return pattern{p: p}
}

// hasWildcard reports whether s can match more than one name.
func hasWildcard(s string) bool { return strings.ContainsAny(s, wildcard) }

// match reports whether name matches. It follows all alternatives of the pattern at once,
// so that the cost is at most the product of the two lengths for any pattern.
//
// Source: [MS-FSA 2.1.4.4]
func (m pattern) match(name string) bool {
	if m.all {
		return true
	}
	n := []rune(name)
	lastDot := -1
	for i, r := range n {
		n[i] = unicode.ToUpper(r)
		if r == '.' {
			lastDot = i
		}
	}
	now, next := make([]bool, len(m.p)+1), make([]bool, len(m.p)+1)
	now[0] = true
	for i, r := range n {
		m.skip(now, r)
		clear(next)
		for at, on := range now[:len(m.p)] {
			if on {
				m.step(next, at, r, i, lastDot)
			}
		}
		now, next = next, now
	}
	m.skip(now, -1)
	return now[len(m.p)]
}

// skip adds the positions that are reached without a character, before r, which is negative
// at the end of the name.
func (m pattern) skip(on []bool, r rune) {
	for at, c := range m.p {
		if !on[at] {
			continue
		}
		switch c {
		case wildAny, dosStar:
			on[at+1] = true
		case dosOne:
			on[at+1] = on[at+1] || r == '.' || r < 0
		case dosDot:
			on[at+1] = on[at+1] || r < 0
		}
	}
}

// step adds the positions that the character r, at index i of the name, leads to.
func (m pattern) step(next []bool, at int, r rune, i, lastDot int) {
	switch c := m.p[at]; c {
	case wildAny:
		next[at] = true
	case wildOne:
		next[at+1] = true
	case dosStar:
		switch {
		case lastDot < 0 || i < lastDot:
			next[at] = true
		case i == lastDot:
			next[at+1] = true
		}
	case dosOne:
		next[at+1] = next[at+1] || r != '.'
	case dosDot:
		next[at+1] = next[at+1] || r == '.'
	default:
		next[at+1] = next[at+1] || r == c
	}
}
