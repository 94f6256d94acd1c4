// Command lwio serves directories over the LWIO protocol and works with the
// files of such servers: list, read, copy, remove, rename.
//
// See README.md for a first run and docs/architecture.md for how it works.
//
// Source: [LWIO claim 6], [LWIO claim 23]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := forbidCoreDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "lwio: core dumps of this process are possible:", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv}
	run := a.run
	if isHelper(os.Args[0]) {
		run = a.helper
	}
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
