//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A user that can open the directory of a file does not hold up a change of the file.
func TestLockOfTheDirectoryHoldsNoChangeUp(t *testing.T) {
	name := put(t, "old", 0o600)
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
