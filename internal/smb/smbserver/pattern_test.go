package smbserver

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/test/cost"
)

// Source: [MS-FSA 2.1.4.4]
func TestPatternMatchesWildcards(t *testing.T) {
	long := strings.Repeat("b", 60)
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"", "a", ".x", "a.b.c"}, nil},
		{"", []string{"a"}, nil},
		{"a", []string{"a", "A"}, []string{"", "aa", "b"}},
		{"*.txt", []string{"x.txt", ".TXT", "a.b.txt"}, []string{"txt", "x.txt.gz"}},
		{"a*b*c", []string{"abc", "aXXbYYc", "abbcc"}, []string{"ab", "abcd"}},
		{"a?c", []string{"abc", "a.c"}, []string{"ac", "abbc"}},
		{"??", []string{"ab", "äö"}, []string{"a", "abc"}},
		// DOS_STAR stops behind the last period.
		{"<", []string{"abc", "a.", ""}, []string{"a.b"}},
		{"<.txt", []string{"a.txt", "a.b.txt"}, []string{"a.txt.gz", "txt"}},
		{"<txt", []string{"a.txt"}, nil},
		// DOS_QM may stand for nothing before a period and at the end.
		{">>>.txt", []string{"a.txt", "abc.txt", ".txt"}, []string{"abcd.txt"}},
		{"a>>", []string{"a", "ab", "abc"}, []string{"abcd", "a.c"}},
		// DOS_DOT is a period, or nothing at the end.
		{`a"`, []string{"a", "a."}, []string{"a.b", "ab"}},
		{`<"*`, []string{"a", "a.b", "a.b.c"}, nil},
		{`a"b`, []string{"a.b"}, []string{"ab", "a"}},
		// A run of wildcards from position 60 to 69, over the end of a word of positions.
		{long + "**********z", []string{long + "z", long + "xyz"}, []string{"z", "xyz", "bz", long}},
	} {
		p, st := newPattern(c.pattern)
		if st != ntstatus.Success {
			t.Fatalf("%q: %v", c.pattern, st)
		}
		for _, n := range c.yes {
			if !p.match(n) {
				t.Errorf("%q does not match %q", c.pattern, n)
			}
		}
		for _, n := range c.no {
			if p.match(n) {
				t.Errorf("%q matches %q", c.pattern, n)
			}
		}
	}
}

// Without the DOS wildcards a pattern has the meaning of path.Match.
//
// Source: [MS-FSA 2.1.4.4]
func TestPatternAgreesWithPathMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab.*?]{1,8}`).Draw(t, "pattern")
		n := rapid.StringMatching(`[ab.]{0,8}`).Draw(t, "name")
		want, err := path.Match(p, n)
		if err != nil {
			t.Fatal(err)
		}
		m, st := newPattern(p)
		if got := m.match(n); st != ntstatus.Success || got != want {
			t.Errorf("%q against %q: %v, want %v; %v", p, n, got, want, st)
		}
	})
}

// A long pattern without a wildcard, or with many, has the results of a matcher that follows
// the definition of each wildcard.
//
// Source: [MS-FSA 2.1.4.4]
func TestPatternAgreesWithDefinition(t *testing.T) {
	symbols := []rune(`aab.*?<>"`)
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringOfN(rapid.SampledFrom(symbols), 0, 6, -1)
		p := strings.Repeat(piece.Draw(t, "first"), rapid.IntRange(0, 40).Draw(t, "times")) + piece.Draw(t, "last")
		p = p[:min(len(p), maxPattern)]
		n := rapid.StringOfN(rapid.SampledFrom([]rune("abB..")), 0, 255, -1).Draw(t, "name")
		m, st := newPattern(p)
		want := p == "" || definitionMatches([]rune(p), []rune(n))
		if got := m.match(n); st != ntstatus.Success || got != want {
			t.Errorf("%q against %q: %v, want %v; %v", p, n, got, want, st)
		}
	})
}

// definitionMatches decides by the rest of the pattern and the rest of the name.
func definitionMatches(p, name []rune) bool {
	lastDot := len(name) - 1
	for lastDot >= 0 && name[lastDot] != '.' {
		lastDot--
	}
	// to[j] reports whether the rest of the pattern matches name[j:].
	to := make([]bool, len(name)+1)
	to[len(name)] = true
	for _, c := range slices.Backward(p) {
		next := make([]bool, len(name)+1)
		for j := len(name); j >= 0; j-- {
			atEnd := j == len(name)
			rest := !atEnd && to[j+1]
			switch c {
			case wildAny:
				next[j] = to[j] || !atEnd && next[j+1]
			case wildOne:
				next[j] = rest
			case dosStar:
				next[j] = to[j] || !atEnd && (lastDot < 0 || j < lastDot) && next[j+1] || j == lastDot && rest
			case dosOne:
				next[j] = (atEnd || name[j] == '.') && to[j] || !atEnd && name[j] != '.' && rest
			case dosDot:
				next[j] = atEnd && to[j] || !atEnd && name[j] == '.' && rest
			default:
				next[j] = !atEnd && unicode.ToUpper(c) == unicode.ToUpper(name[j]) && rest
			}
		}
		to = next
	}
	return to[0]
}

// A pattern may have as many characters as the longest name, and no more.
func TestPatternLongerThanAnyNameIsRefused(t *testing.T) {
	longest := strings.Repeat("*ä", maxPattern/2) + "*"
	p, st := newPattern(longest)
	if st != ntstatus.Success || !p.match(strings.Repeat("Ä", 255)) || p.match(strings.Repeat("Ä", maxPattern/2-1)) {
		t.Errorf("longest pattern: %v", st)
	}
	for _, c := range []string{longest + "*", strings.Repeat("*", 32767), strings.Repeat("a", 256)} {
		if _, st := newPattern(c); st != ntstatus.ObjectNameInvalid {
			t.Errorf("pattern of %d bytes: %v", len(c), st)
		}
	}
}

// The time for a name grows with the name, not with the pattern.
func TestPatternTimeDoesNotDependOnPattern(t *testing.T) {
	name := strings.Repeat("a.", 127)
	match := func(s string) func() time.Duration {
		p, st := newPattern(s)
		if st != ntstatus.Success {
			t.Fatal(st)
		}
		return func() time.Duration {
			start := time.Now()
			for range 20 {
				p.match(name)
			}
			return time.Since(start)
		}
	}
	for _, s := range []string{strings.Repeat("*z", 127), strings.Repeat(">", 254) + "*", strings.Repeat("<*", 127) + "z"} {
		t.Run(s[:4], func(t *testing.T) { cost.WantAtMost(t, 20, match("*z"), match(s)) })
	}
}
