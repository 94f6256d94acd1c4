package smbwire

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// Source: [MS-FSCC 2.1.5]
func TestCleanPathRefusesNamesThatSMBCannotCarry(t *testing.T) {
	long := strings.Repeat("x", maxElement)
	for name, want := range map[string]string{
		"": "", ".": "", "a": "a", "a/": "a", "a/b c/ä😀": "a/b c/ä😀", "a.": "a.", "a ": "a ", "..a": "..a", long: long,
	} {
		if got, err := CleanPath(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{
		"/", "/a", "a//b", "a//", "..", "a/..", "../a", "./a", "a/.", `a\b`, "a:b", "a*", "a?", `a"`, "a<", "a>", "a|", "a\x00", "a\n",
		"a\xff", long + "x", strings.Repeat("😀", 128), strings.Repeat("a/", maxPath/2) + "aa",
	} {
		if got, err := CleanPath(name); !errors.Is(err, fs.ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid name: ") {
			t.Errorf("%.20q: %q, %v", name, got, err)
		}
	}
}

func TestIsElementRefusesPaths(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "a:b": true, "": false, ".": false, "..": false, "a/b": false, `a\b`: false, "a\x00": false} {
		if IsElement(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
