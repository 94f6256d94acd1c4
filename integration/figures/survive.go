package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

// call is a kind of call that changes the state of a server.
type call string

const (
	opening call = "open" // and close
	locking call = "lock" // and unlock
)

// names is a load of calls over SMB alone, beside one file.
type names struct {
	Call    call
	Durable bool   // the opens outlive their connection
	State   bool   // the server has a state
	Flight  int    // calls in flight
	Bin     string // the lwio that serves; "" for the checkout's
}

// Run does the job once.
func (j names) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	const name = "names"
	if err := os.WriteFile(filepath.Join(l.Share, name), []byte("content"), 0o644); err != nil {
		return nil, err
	}
	bin := cmp.Or(j.Bin, binary(l))
	key, state := bin+" without a state", ""
	if j.State {
		key, state = bin+" with a state", filepath.Join(l.Dir, "state")
	}
	s, err := l.Serve(key, l.Server, "", serveCommand(bin, l.Share, state)...)
	if err != nil {
		return nil, err
	}
	return sides.Job{
		Bench: string(j.Call), Peer: s.At, File: name, Durable: j.Durable, Flight: j.Flight, Count: 5_000, ServerPID: s.PID(),
	}.OfServer(ctx, l)
}

// serveCommand is the command of a server with a state, unless it is "". The server keeps as many opens as
// fullOpens, also where a process may open few files.
func serveCommand(bin, dir, state string) []string {
	command := []string{bin, "serve", "--listen", "127.0.0.1:0", "--files", "16384"}
	if state != "" {
		command = append(command, "--state", state)
	}
	return append(command, "data="+dir)
}
