package smbclient

import (
	"fmt"
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// maxElement is how many UTF-16 units an element of a path may have.
const maxElement = 255

// reserved are characters that mean something else to SMB than to be part of a
// name.
//
// Source: [MS-FSCC 2.1.5]
const reserved = `\:*?"<>|`

// encodePath turns a slash-separated path relative to the share, with "" or "."
// for the root, into the name of a CREATE.
//
// Errors: ntstatus.ObjectNameInvalid, which is fs.ErrInvalid, for a name that
// cannot be carried.
func encodePath(path string) ([]byte, error) {
	if path == "" || path == "." {
		return nil, nil
	}
	for elem := range strings.SplitSeq(path, "/") {
		if err := checkElement(elem); err != nil {
			return nil, err
		}
	}
	return smbwire.UTF16(strings.ReplaceAll(path, "/", `\`))
}

func checkElement(e string) error {
	switch {
	case e == "", e == ".", e == "..":
		return fmt.Errorf("element %q: %w", e, ntstatus.ObjectNameInvalid)
	case strings.ContainsAny(e, reserved):
		return fmt.Errorf("element %q has one of %s: %w", e, reserved, ntstatus.ObjectNameInvalid)
	}
	units := 0
	for _, r := range e {
		if r < ' ' {
			return fmt.Errorf("element %q has a control character: %w", e, ntstatus.ObjectNameInvalid)
		}
		if units++; r > 0xFFFF {
			units++
		}
	}
	if units > maxElement {
		return fmt.Errorf("element %.20q...: %w", e, ntstatus.NameTooLong)
	}
	return nil
}

// checkName checks the name of a directory's entry: a server must not smuggle in
// a path.
func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q: %w", name, smbwire.ErrName)
	}
	return nil
}
