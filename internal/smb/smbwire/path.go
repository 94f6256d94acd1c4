package smbwire

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// maxElement bounds one element of a path, in UTF-16 units.
const maxElement = 255

// maxPath bounds a whole path, in bytes.
const maxPath = 32767

// errBadName reports a name that SMB cannot carry. It is fs.ErrInvalid.
var errBadName error = badName{}

type badName struct{}

func (badName) Error() string        { return "invalid name" }
func (badName) Is(target error) bool { return target == fs.ErrInvalid }

// CleanPath checks the path of a file or directory, slash-separated and relative to its
// share, and returns it without a trailing slash; the root of the share is "". A path with
// characters that SMB takes for something else, such as a backslash for a separator or a
// colon for a stream, is refused before it goes on the wire.
//
// Errors: fs.ErrInvalid.
//
// Source: [MS-FSCC 2.1.5]
func CleanPath(name string) (string, error) {
	if name == "" || name == "." {
		return "", nil
	}
	name = strings.TrimSuffix(name, "/")
	if len(name) > maxPath {
		return "", fmt.Errorf("%w: longer than %d bytes", errBadName, maxPath)
	}
	rest := name
	for {
		elem, tail, more := strings.Cut(rest, "/")
		if err := CheckElement(elem); err != nil {
			return "", err
		}
		if !more {
			return name, nil
		}
		rest = tail
	}
}

// CheckElement checks one element of a path, or the name of a share.
//
// Errors: fs.ErrInvalid.
func CheckElement(e string) error {
	switch e {
	case "":
		return fmt.Errorf("%w: it begins with a slash or has two in a row", errBadName)
	case ".", "..":
		return fmt.Errorf("%w: %q leads to another directory", errBadName, e)
	}
	if !utf8.ValidString(e) {
		return fmt.Errorf("%w: %q is not UTF-8", errBadName, e)
	}
	units := 0
	for _, r := range e {
		if r < 0x20 || strings.ContainsRune(`\:*?"<>|`, r) {
			return fmt.Errorf("%w: SMB cannot carry %q", errBadName, r)
		}
		units++
		if r >= 0x10000 {
			units++
		}
	}
	if units > maxElement {
		return fmt.Errorf("%w: %d characters where %d are allowed", errBadName, units, maxElement)
	}
	return nil
}

// IsElement reports whether a name in the listing of a server is a single element, and not
// a path to another directory.
func IsElement(e string) bool {
	return e != "" && e != "." && e != ".." && !strings.ContainsAny(e, "/\\\x00")
}
