package smbclient

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"testing"
	"testing/synctest"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// The unsigned response to a read that the server refuses after LOGOFF is the error of a closed
// session.
//
// Source: [MS-SMB2 3.3.5.2.9]
func TestReadAfterLogoff(t *testing.T) {
	tree, _ := mount(t, nil)
	f, err := tree.Create(t.Context(), readWrite("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.s.logoff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, net.ErrClosed) || errors.Is(err, ErrSignature) {
		t.Errorf("read: %v", err)
	}
	if _, err := f.WriteAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, net.ErrClosed) || errors.Is(err, ErrSignature) || Refused(err) {
		t.Errorf("write: %v", err)
	}
	if err := tree.s.Err(); err != nil {
		t.Errorf("session: %v", err)
	}
}

// Requests in flight during LOGOFF end with the session; forged responses are still detected.
//
// Source: [MS-SMB2 3.2.5.1.3]
func TestRequestsInFlightEndWithLogoff(t *testing.T) {
	unsigned := func(b []byte, _ *smbwire.Header) { b[smbwire.FrameHeaderSize+16] &^= 8 }
	wrong := func(b []byte, _ *smbwire.Header) { b[smbwire.FrameHeaderSize+48] ^= 1 }
	repeated := func(b []byte, request *smbwire.Header) { copy(b[smbwire.FrameHeaderSize+48:], request.Signature[:]) }
	signed := func([]byte, *smbwire.Header) {}
	for name, c := range map[string]struct {
		status  ntstatus.Status
		spoil   func(b []byte, request *smbwire.Header)
		closing bool
		forged  bool
		refused bool // the server has said for certain that it did nothing
	}{
		"no session, unsigned":             {ntstatus.UserSessionDeleted, unsigned, true, false, false},
		"no session, signed":               {ntstatus.UserSessionDeleted, signed, true, false, true},
		"no tree, signed":                  {ntstatus.NetworkNameDeleted, signed, true, false, true},
		"no file, signed":                  {ntstatus.FileClosed, signed, true, false, true},
		"cancelled, signed":                {ntstatus.Cancelled, signed, true, false, true},
		"no session, wrongly signed":       {ntstatus.UserSessionDeleted, wrong, true, true, false},
		"another status, unsigned":         {ntstatus.AccessDenied, unsigned, true, true, false},
		"no file, unsigned":                {ntstatus.FileClosed, unsigned, true, true, false},
		"no session, unsigned, not closed": {ntstatus.UserSessionDeleted, unsigned, false, true, false},
		// A server without the key of the session repeats the signature of the request.
		"no session, repeated":             {ntstatus.UserSessionDeleted, repeated, true, false, false},
		"another status, repeated":         {ntstatus.AccessDenied, repeated, true, true, false},
		"no session, repeated, not closed": {ntstatus.UserSessionDeleted, repeated, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var write smbwire.Header
			answered := false
			came := make(chan struct{})
			_, tree := fakeMount(t, func(f *fake) {
				f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
					if h.Command == smbwire.CommandWrite {
						write = h
						close(came)
					}
					if h.Command == smbwire.CommandLogoff && !answered || h.Command == smbwire.CommandWrite && !c.closing {
						answered = true
						b := f.answer(write, c.status, &smbwire.ErrorResponse{})
						c.spoil(b, &write)
						f.write(b)
					}
					return h.Command == smbwire.CommandWrite
				}
			}, nil)
			end := make(chan error, 1)
			go func() { end <- second((&File{t: tree, id: fakeFile}).WriteAt(t.Context(), make([]byte, 10), 0)) }()
			<-came
			if c.closing {
				_ = tree.s.logoff(t.Context()) // a forgery may end it first
			}
			err := <-end
			if !errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed) || errors.Is(err, context.Canceled) ||
				errors.Is(err, ErrSignature) != c.forged || Refused(err) != c.refused {
				t.Error(err)
			}
		})
	}
}

func second(_ int, err error) error { return err }

// CloseContext sends LOGOFF unless its context has ended.
func TestCloseContextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the server is never too slow
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for ctx, want := range map[context.Context]int{t.Context(): 1, ended: 0} {
			f, tree := fakeMount(t, nil, nil)
			if err := tree.s.CloseContext(ctx); err != nil || !errors.Is(tree.s.Err(), net.ErrClosed) {
				t.Errorf("%v, session: %v", err, tree.s.Err())
			}
			if n := f.count(smbwire.CommandLogoff); n != want {
				t.Errorf("%d times LOGOFF, not %d", n, want)
			}
		}
	})
}
