package smbserver

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Source: [MS-FSA 2.1.4.4]
func TestPatternMatchesWildcards(t *testing.T) {
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
	} {
		p := newPattern(c.pattern)
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
		if got := newPattern(p).match(n); got != want {
			t.Errorf("%q against %q: %v, want %v", p, n, got, want)
		}
	})
}

// Patterns made to be slow are matched in bounded time.
func TestPatternCostIsBounded(t *testing.T) {
	p := newPattern(strings.Repeat("*a", 120))
	if p.match(strings.Repeat("a", 119)) {
		t.Error("too short a name matches")
	}
	if !p.match(strings.Repeat("a", 255)) {
		t.Error("long name does not match")
	}
}
