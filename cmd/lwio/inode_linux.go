package main

import (
	"io/fs"
	"syscall"
	"time"
)

// localInode describes a local file.
func localInode(fi fs.FileInfo) inode {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{allocated: -1}
	}
	return inode{
		key: [2]uint64{st.Dev, st.Ino}, many: st.Nlink > 1 && !fi.IsDir(), allocated: st.Blocks * 512,
		accessed: time.Unix(st.Atim.Unix()),
	}
}
