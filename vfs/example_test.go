package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"lwio/vfs"
	"lwio/vfs/posix"
)

func Example() {
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	backend, err := posix.OpenDir(dir)
	if err != nil {
		panic(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "work", Backend: backend}}})
	if err != nil {
		panic(err)
	}
	defer files.Close()

	o, _, err := files.Open(vfs.OpenRequest{
		Share: "WORK", Path: "notes.txt", Owner: "a session",
		Access: vfs.GenericRead | vfs.GenericWrite, Disposition: vfs.Create,
	})
	if err != nil {
		panic(err)
	}
	_, _, err = files.Open(vfs.OpenRequest{Share: "work", Path: "notes.txt", Access: vfs.GenericRead})
	fmt.Println(err)

	if err := o.Acquire(); err != nil {
		panic(err)
	}
	p := make([]byte, 16)
	fmt.Println(o.WriteAt([]byte("hello"), 0))
	fmt.Println(o.ReadAt(p, 1))
	_, err = o.ReadAt(p, 5)
	fmt.Println(errors.Is(err, io.EOF))
	o.Release()
	o.Close()
	fmt.Println(errors.Is(o.Acquire(), fs.ErrClosed))

	// Output:
	// vfs: open work/notes.txt: STATUS_SHARING_VIOLATION
	// 5 <nil>
	// 4 <nil>
	// true
	// true
}

// keep is a directory of which nothing can be deleted or renamed.
type keep struct{ *posix.Dir }

func (keep) CheckRemove(string) error { return fs.ErrPermission }

// A backend of one's own can change the behaviour of another one.
func ExampleBackend() {
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	backend, err := posix.OpenDir(dir)
	if err != nil {
		panic(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "archive", Backend: keep{backend}}}})
	if err != nil {
		panic(err)
	}
	defer files.Close()

	req := vfs.OpenRequest{Share: "archive", Path: "2026.log", Access: vfs.GenericWrite, Disposition: vfs.Create}
	o, action, err := files.Open(req)
	if err != nil {
		panic(err)
	}
	fmt.Println("created:", action == vfs.Created)
	o.Close()

	req.Access, req.Disposition = vfs.Delete, vfs.OpenExisting
	_, _, err = files.Open(req)
	fmt.Println("refused:", errors.Is(err, fs.ErrPermission))

	// Output:
	// created: true
	// refused: true
}
