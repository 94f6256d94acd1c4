// Package secret reads and writes files that hold passwords. It refuses files that other users can
// read.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 1 << 20

// ErrMode is the error of a file that users other than its owner may read or change.
var ErrMode = errors.New("other users may read or change it")

// ReadLines returns the lines of a file, without their ends. There is at least one. On systems with
// Unix permissions the group and other users must have no permission for the file (mode 0600); the
// rule holds for files and named pipes, not for terminals. An error never has content of the file.
//
// Errors: ErrMode; a file above MaxSize; a failure of the operating system.
func ReadLines(name string) ([]string, error) {
	b, err := ReadFile(name)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n"), nil
}

// ReadFile returns the content of a file, under the rules of ReadLines.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(name, info.Mode()); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, MaxSize)
	}
	return b, nil
}

// checkMode refuses a file that others than its owner may read or change.
func checkMode(name string, mode fs.FileMode) error {
	if runtime.GOOS == "windows" || mode&fs.ModeCharDevice != 0 || mode.Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("%s has mode %#o: %w; run 'chmod 600' on it", name, mode.Perm(), ErrMode)
}

// WriteFile replaces a file, or makes it, with mode 0600. The owner of the file stays the same. Of a
// symbolic link it replaces the target. A reader finds the old content or the new one, also after a
// crash.
func WriteFile(name string, content []byte) (err error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".lwio-*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err = keepOwner(f, name); err != nil {
		return err
	}
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// Lock keeps other processes out of Lock for a file until unlock is called. The file need not exist.
// A WriteFile of the file ends the lock too, so it is the last step before unlock.
func Lock(name string) (unlock func(), err error) { return lock(name) }
