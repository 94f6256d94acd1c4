package smbclient

import (
	"fmt"
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// encodePath turns a slash-separated path relative to the share, with "" or "." for the
// root, into the name of a CREATE.
//
// Errors: ntstatus.ObjectNameInvalid, which is fs.ErrInvalid, for a name that SMB cannot
// carry.
func encodePath(path string) ([]byte, error) {
	if path == "" || path == "." {
		return nil, nil
	}
	for elem := range strings.SplitSeq(path, "/") {
		if err := smbwire.CheckElement(elem); err != nil {
			return nil, fmt.Errorf("%w: %w", ntstatus.ObjectNameInvalid, err)
		}
	}
	return smbwire.UTF16(strings.ReplaceAll(path, "/", `\`))
}

// checkName checks the name of a directory's entry, which must not be a path.
func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q: %w", name, smbwire.ErrName)
	}
	return nil
}
