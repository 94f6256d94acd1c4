package vfs

import (
	"strings"
	"unicode/utf8"

	"lwio/internal/ntstatus"
)

// Limits of a path, in bytes of UTF-8. 255 UTF-16 units are at most 765 bytes.
const (
	maxPathBytes = 32 << 10
	maxNameBytes = 3 * 255
)

// parsePath checks a path from a peer and returns it without a trailing slash. wantDir reports
// the slash: the path is of a directory.
//
// Errors: OBJECT_PATH_SYNTAX_BAD for an absolute path and for "..",
// OBJECT_NAME_INVALID for every other name that NT does not have.
//
// Source: [MS-FSCC 2.1.5]
func parsePath(p string) (path string, wantDir bool, err error) {
	if p == "" || p == "." {
		return "", false, nil
	}
	if len(p) > maxPathBytes {
		return "", false, because(ntstatus.ObjectNameInvalid, "path is too long")
	}
	if p[0] == '/' || p[0] == '\\' {
		return "", false, because(ntstatus.ObjectPathSyntaxBad, "path is absolute")
	}
	if rest, cut := strings.CutSuffix(p, "/"); cut {
		p, wantDir = rest, true
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return "", false, because(ntstatus.ObjectPathSyntaxBad, `path contains ".."`)
		}
		if !validName(name) {
			return "", false, because(ntstatus.ObjectNameInvalid, "a name in the path is not allowed")
		}
	}
	return p, wantDir, nil
}

// validName reports whether SMB can carry name as one component of a path.
// Streams ("file:stream") are not served.
func validName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return false
	}
	for i := range len(name) {
		if name[i] < 0x20 || strings.IndexByte(`/\:*?<>"|`, name[i]) >= 0 {
			return false
		}
	}
	return true
}

// split cuts a path into its parent and its last name.
func split(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
