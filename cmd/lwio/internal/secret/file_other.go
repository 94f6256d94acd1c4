//go:build !unix

package secret

import "os"

// lock does nothing: of two changes at the same moment the later one wins.
func lock(string) (unlock func(), err error) { return func() {}, nil }

// keepOwner does nothing: a file gets its owner from its directory.
func keepOwner(*os.File, string) error { return nil }

// syncDir does nothing: the system has no such operation.
func syncDir(string) error { return nil }
