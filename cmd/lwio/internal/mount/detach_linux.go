package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// detach removes a mount, also one in use.
func detach(dir string) error {
	if os.Geteuid() == 0 {
		return unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	program, err := exec.LookPath("fusermount3")
	if errors.Is(err, exec.ErrNotFound) {
		program, err = exec.LookPath("fusermount")
	}
	if err != nil {
		return err
	}
	if out, err := exec.Command(program, "-u", "-z", "--", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}
