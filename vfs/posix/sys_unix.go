//go:build unix && !linux

package posix

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"lwio/vfs"
)

// nonBlock makes the open of a FIFO return at once.
const nonBlock = syscall.O_NONBLOCK | syscall.O_NOCTTY

// fillSys adds the fields that only the operating system's structure has.
func fillSys(_ *Dir, _ string, fi fs.FileInfo, info *vfs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.ErrUnsupported
	}
	info.ID, info.Device, info.Links = uint64(st.Ino), uint64(st.Dev), uint32(st.Nlink)
	if !info.Dir {
		info.AllocationSize = st.Blocks * 512
	}
	return nil
}

// fillFile has nothing to add.
func fillFile(*os.File, *vfs.FileInfo) error { return nil }

func setTimes(f *os.File, accessed, modified time.Time) error {
	tv := []syscall.Timeval{syscall.NsecToTimeval(accessed.UnixNano()), syscall.NsecToTimeval(modified.UnixNano())}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Futimes(int(fd), tv) }); err != nil {
		return err
	}
	return failed
}
