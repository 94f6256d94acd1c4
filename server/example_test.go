package server_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"lwio"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// A directory is served to one user, over iWARP and SMB, until the server is closed.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	backend, err := posix.OpenDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "work", Backend: backend}}})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()

	users := server.Users{"alice": "secret"}
	srv, err := server.New(server.Config{FS: files, Lookup: users.Lookup, Providers: []rdma.Provider{iwarp.New(nil)}})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, l) }()

	c, err := lwio.Dial(ctx, "lwio://alice:secret@"+l.Addr().String()+"/work", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = c.Mkdir(ctx, "drafts", 0)
	fmt.Println("made:", err)
	c.Close()

	srv.Close()
	fmt.Println("served:", <-served)
	// Output:
	// made: <nil>
	// served: <nil>
}
