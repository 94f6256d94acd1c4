package posix

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Identity returns bytes that no other file has. They are the same after the server, or the file system
// with another device number, was started again. They have the number of the inode, its time of
// birth, and the file handle of the kernel, which contains the generation of the inode. Without file
// handles the id of the file system (statfs) takes their place.
func (h *file) Identity() ([]byte, error) {
	defer keep(h.f)
	var st unix.Statx_t
	err := eintr(func() error {
		return unix.Statx(h.fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return nil, translate(err)
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(st.Btime.Sec))
		b = binary.LittleEndian.AppendUint32(b, st.Btime.Nsec)
	}
	handle, _, err := unix.NameToHandleAt(h.fd, "", unix.AT_EMPTY_PATH)
	switch {
	case err == nil:
		b = binary.LittleEndian.AppendUint32(b, uint32(handle.Type()))
		return append(b, handle.Bytes()...), nil
	case !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOVERFLOW):
		return nil, translate(err)
	}
	var fs unix.Statfs_t
	if err := eintr(func() error { return unix.Fstatfs(h.fd, &fs) }); err != nil {
		return nil, translate(err)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(fs.Fsid.Val[0]))
	return binary.LittleEndian.AppendUint32(b, uint32(fs.Fsid.Val[1])), nil
}
