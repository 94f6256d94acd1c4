package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"lwio/cmd/lwio/internal/sockets"
)

// asSuccessor, set in the environment, makes the test program behave as a successor that fails at a step.
const asSuccessor = "LWIO_TEST_AS_SUCCESSOR"

// failAsSuccessor is the successor of asSuccessor.
func failAsSuccessor(at string) {
	var set sockets.Set
	p, err := inherit(os.Getenv, &set)
	if errors.Is(err, errLaunched) {
		os.Exit(exitOK)
	}
	if err != nil || p == nil {
		fmt.Fprintln(os.Stderr, "no predecessor:", err)
		os.Exit(exitFailure)
	}
	if at == "before ready" {
		os.Exit(exitFailure)
	}
	if err := p.await(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "await:", err)
		os.Exit(exitFailure)
	}
	if at == "state" {
		p.end(errors.New("state: the format 7 is unknown"))
	}
	os.Exit(exitFailure)
}
