// Package names says which names of files, directories and shares SMB can carry. What
// it would take for something else, such as a backslash for a separator or a colon for a
// stream, is found before it goes on the wire.
//
// Source: [MS-FSCC 2.1.5]
package names

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// maxElement is how many UTF-16 units one element of a path may have.
const maxElement = 255

// maxName is how many bytes a whole path may have.
const maxName = 32767

// errBadName is a name that SMB cannot carry. It is fs.ErrInvalid.
var errBadName error = badName{}

type badName struct{}

func (badName) Error() string        { return "invalid name" }
func (badName) Is(target error) bool { return target == fs.ErrInvalid }

// Clean checks the name of a file or directory, slash-separated, and returns it without
// a trailing slash; the root of the share is "".
//
// Errors: fs.ErrInvalid.
//
// Source: [MS-FSCC 2.1.5]
func Clean(name string) (string, error) {
	if name == "" || name == "." {
		return "", nil
	}
	name = strings.TrimSuffix(name, "/")
	if len(name) > maxName {
		return "", fmt.Errorf("%w: longer than %d bytes", errBadName, maxName)
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

// IsElement reports whether a name that a server lists is one: a server has no
// business with names that lead elsewhere.
func IsElement(e string) bool {
	return e != "" && e != "." && e != ".." && !strings.ContainsAny(e, "/\\\x00")
}
