package smbclient

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// The outcome of a change that was sent and has no response is unknown. The outcome of a
// refused change, or of a change that was not sent, is known.
//
// Source: [MS-SMB2 3.2.4.1.4]
func TestLostResponseLeavesOutcomeUnknown(t *testing.T) {
	changes := map[string]func(context.Context, *Tree) error{
		"mkdir":  func(ctx context.Context, tree *Tree) error { return tree.Mkdir(ctx, "d") },
		"remove": func(ctx context.Context, tree *Tree) error { return tree.Remove(ctx, "d") },
		"rename": func(ctx context.Context, tree *Tree) error { return tree.Rename(ctx, "d", "e", true) },
	}
	for name, test := range map[string]struct {
		late       bool // it is given up before it begins
		answer     func(f *fake, h smbwire.Header, cancel func())
		unanswered bool
		err        error
	}{
		"too late": {late: true, err: context.Canceled},
		"refused": {
			answer: func(f *fake, h smbwire.Header, _ func()) {
				f.reply(h, ntstatus.AccessDenied, &smbwire.ErrorResponse{})
			},
			err: ntstatus.AccessDenied,
		},
		"given up": {answer: func(_ *fake, _ smbwire.Header, cancel func()) { cancel() }, unanswered: true, err: context.Canceled},
		"lost":     {answer: func(f *fake, _ smbwire.Header, _ func()) { f.nc.Close() }, unanswered: true, err: net.ErrClosed},
		"nonsense": {
			answer: func(f *fake, h smbwire.Header, _ func()) { f.reply(h, ntstatus.Success, smbwire.Empty{}) }, unanswered: true, err: ErrProtocol,
		},
	} {
		for op, change := range changes {
			t.Run(name+"/"+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					_, tree := fakeMount(t, onCommand(smbwire.CommandCreate, func(f *fake, h smbwire.Header, _ []byte) { test.answer(f, h, cancel) }), nil)
					if test.late {
						cancel()
					}
					if err := change(ctx, tree); !errors.Is(err, test.err) || errors.Is(err, ErrUnknownOutcome) != test.unanswered {
						t.Errorf("%v", err)
					}
				})
			})
		}
	}
}

// The outcome of a change whose CLOSE is refused is unknown.
func TestRefusedCloseAfterChangeLeavesOutcomeUnknown(t *testing.T) {
	_, tree := fakeMount(t, onCommand(smbwire.CommandClose, func(f *fake, h smbwire.Header, _ []byte) {
		f.reply(h, ntstatus.UserSessionDeleted, &smbwire.ErrorResponse{})
	}), nil)
	if err := tree.Mkdir(t.Context(), "d"); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
}
