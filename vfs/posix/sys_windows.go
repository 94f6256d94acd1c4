package posix

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"lwio/vfs"
)

// nonBlock has no meaning here: pipes are not in directories.
const nonBlock = 0

// fillSys finds the identity of a file, for which it must be opened.
func fillSys(d *Dir, path string, _ fs.FileInfo, info *vfs.FileInfo) error {
	if path == "" {
		return nil // fillFile comes next
	}
	f, err := d.root.Open(path)
	if err != nil {
		return translate(err)
	}
	defer f.Close()
	return fillFile(f, info)
}

// fillFile adds the identity and the times of an open file.
func fillFile(f *os.File, info *vfs.FileInfo) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var bh syscall.ByHandleFileInformation
	var failed error
	err = raw.Control(func(h uintptr) { failed = syscall.GetFileInformationByHandle(syscall.Handle(h), &bh) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	info.Device = uint64(bh.VolumeSerialNumber)
	info.ID = uint64(bh.FileIndexHigh)<<32 | uint64(bh.FileIndexLow)
	info.Links = bh.NumberOfLinks
	info.Created = time.Unix(0, bh.CreationTime.Nanoseconds())
	info.Accessed = time.Unix(0, bh.LastAccessTime.Nanoseconds())
	return nil
}

func setTimes(f *os.File, accessed, modified time.Time) error {
	a, m := syscall.NsecToFiletime(accessed.UnixNano()), syscall.NsecToFiletime(modified.UnixNano())
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(h uintptr) { failed = syscall.SetFileTime(syscall.Handle(h), nil, &a, &m) })
	if err == nil {
		err = failed
	}
	return err
}
