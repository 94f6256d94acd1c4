//go:build !linux

package main

import (
	"context"
	"errors"
	"os"

	"lwio/cmd/lwio/internal/sockets"
)

// There are no hand-overs without a state, which is for Linux only.

func notifyHandOvers(chan<- os.Signal) {}

type successor struct{}

func startSuccessor(context.Context, *sockets.Set, []string) (*successor, error) {
	return nil, errors.ErrUnsupported
}

func (*successor) takeOver(context.Context) error { return errors.ErrUnsupported }

func (*successor) interrupt() error { return errors.ErrUnsupported }

func (*successor) pid() int { return 0 }

type predecessor struct{ printed []string }

func inherit(func(string) string, *sockets.Set) (*predecessor, error) { return nil, nil }

func (*predecessor) await(context.Context) error { return errors.ErrUnsupported }

func (*predecessor) leave() *departure { return &departure{} }

func (*predecessor) end(error) {}
