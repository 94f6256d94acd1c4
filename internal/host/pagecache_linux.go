package host

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// PagesCached reports whether all pages of an open file that hold the n bytes at off are in
// the page cache now; known is false where the kernel does not report it to this process. It
// reads nothing and waits for no disk. A file has no pages beyond its end.
func PagesCached(f *os.File, off int64, n int) (cached, known bool) {
	if n <= 0 {
		return true, true
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false, false
	}
	page := int64(os.Getpagesize())
	first, last := off/page, (off+int64(n)-1)/page
	at := unix.CachestatRange{Off: uint64(first * page), Len: uint64((last - first + 1) * page)}
	var st unix.Cachestat_t
	var asked error = unix.EINTR
	err = raw.Control(func(fd uintptr) {
		for errors.Is(asked, unix.EINTR) {
			asked = unix.Cachestat(uint(fd), &at, &st, 0)
		}
	})
	return st.Cache >= uint64(last-first+1), err == nil && asked == nil
}
