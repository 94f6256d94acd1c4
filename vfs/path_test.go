package vfs

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"lwio/internal/ntstatus"
)

// Source: [MS-FSCC 2.1.5]
func TestParsePathRefusesInvalidPaths(t *testing.T) {
	long := strings.Repeat("x", maxNameBytes)
	for _, c := range []struct {
		in, want string
		dir      bool
		status   ntstatus.Status
	}{
		{in: "", want: ""},
		{in: ".", want: ""},
		{in: "a", want: "a"},
		{in: "a/b c/d.txt", want: "a/b c/d.txt"},
		{in: "a/", want: "a", dir: true},
		{in: "ünï/日本", want: "ünï/日本"},
		{in: "...", want: "..."},
		{in: ".hidden", want: ".hidden"},
		{in: long, want: long},
		{in: "/", status: ntstatus.ObjectPathSyntaxBad},
		{in: "/etc/passwd", status: ntstatus.ObjectPathSyntaxBad},
		{in: `\a`, status: ntstatus.ObjectPathSyntaxBad},
		{in: "..", status: ntstatus.ObjectPathSyntaxBad},
		{in: "../a", status: ntstatus.ObjectPathSyntaxBad},
		{in: "a/../b", status: ntstatus.ObjectPathSyntaxBad},
		{in: "a/..", status: ntstatus.ObjectPathSyntaxBad},
		{in: "a/../", status: ntstatus.ObjectPathSyntaxBad},
		{in: "a/./b", status: ntstatus.ObjectNameInvalid},
		{in: "./a", status: ntstatus.ObjectNameInvalid},
		{in: "./", status: ntstatus.ObjectNameInvalid},
		{in: "a//b", status: ntstatus.ObjectNameInvalid},
		{in: "a//", status: ntstatus.ObjectNameInvalid},
		{in: `a\b`, status: ntstatus.ObjectNameInvalid},
		{in: `a\..\b`, status: ntstatus.ObjectNameInvalid},
		{in: "a\x00b", status: ntstatus.ObjectNameInvalid},
		{in: "a\x1fb", status: ntstatus.ObjectNameInvalid},
		{in: "a:stream", status: ntstatus.ObjectNameInvalid},
		{in: "a::$DATA", status: ntstatus.ObjectNameInvalid},
		{in: "a*", status: ntstatus.ObjectNameInvalid},
		{in: "a?", status: ntstatus.ObjectNameInvalid},
		{in: "<a", status: ntstatus.ObjectNameInvalid},
		{in: ">a", status: ntstatus.ObjectNameInvalid},
		{in: `a"`, status: ntstatus.ObjectNameInvalid},
		{in: "a|b", status: ntstatus.ObjectNameInvalid},
		{in: "a\xff", status: ntstatus.ObjectNameInvalid},
		{in: "\xed\xa0\x80", status: ntstatus.ObjectNameInvalid}, // half a surrogate pair
		{in: long + "x", status: ntstatus.ObjectNameInvalid},
		{in: strings.Repeat("a/", maxPathBytes/2) + "a", status: ntstatus.ObjectNameInvalid},
	} {
		got, dir, err := parsePath(c.in)
		if got != c.want || dir != c.dir || ntstatus.Of(err) != c.status {
			t.Errorf("parsePath(%.40q) = %.40q, %v, %v; want %.40q, %v, %v", c.in, got, dir, err, c.want, c.dir, c.status)
		}
	}
}

// An accepted path is local and clean, and parses to itself.
//
// Source: [MS-FSCC 2.1.5]
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"", ".", "a", "a/b", "a/", "../a", "/a", `a\b`, "a:b", "a\x00", "\xff", "a//b", "...", "a/.. /b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		path, _, err := parsePath(in)
		if err != nil {
			if s := ntstatus.Of(err); path != "" || s != ntstatus.ObjectNameInvalid && s != ntstatus.ObjectPathSyntaxBad {
				t.Fatalf("%q: %q, %v", in, path, err)
			}
			return
		}
		if path == "" {
			return
		}
		if !filepath.IsLocal(path) || filepath.ToSlash(filepath.Clean(path)) != path {
			t.Fatalf("%q: %q is not a clean local path", in, path)
		}
		if !utf8.ValidString(path) || strings.ContainsAny(path, "\x00\\:*?<>\"|") {
			t.Fatalf("%q: %q cannot be carried", in, path)
		}
		again, _, err := parsePath(path)
		if err != nil || again != path {
			t.Fatalf("%q: %q, then %q, %v", in, path, again, err)
		}
		parent, name := split(path)
		if strings.TrimPrefix(parent+"/"+name, "/") != path || !validName(name) {
			t.Fatalf("%q splits into %q and %q", path, parent, name)
		}
	})
}
