package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
)

// Client and server of the example connect by shared memory.
func TestExampleConnectsBySharedMemory(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- run(ctx, []string{"serve", "127.0.0.1:0"}, w) }()
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(ctx, []string{"ask", strings.TrimSpace(addr)}, &out); err != nil {
		t.Error(err)
	}
	if out.String() != "SERVING by shm\n" {
		t.Errorf("printed %q", out.String())
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if run(t.Context(), nil, &out) == nil {
		t.Error("no arguments are no error")
	}
}
