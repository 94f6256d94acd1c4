package stream

import (
	"errors"
	"io"
	"net"
	"testing"
)

// TestCloseWaitsForPeerWrites closes while the peer writes to memory of the stream: the
// shutdown is sent only after the peer has written. After the shutdown the peer may
// disconnect, and the memory is freed.
//
// Source: [WSD §7]
func TestCloseWaitsForPeerWrites(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{NoRead: true, Linger: patience}, true)
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 100)) // too small for a write of the peer
			read <- err
		}()
		r.sendMessage(Message{Type: TypeOffer, Credits: 1, Transfer: 1, Total: 1000})
		ready := r.receive(TypeReady)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		r.quiet("while the peer may write")
		r.sendMessage(Message{Type: TypeDone, Credits: 1, Transfer: 1, Total: ready.Total})
		if m := r.receive(TypeShutdown); m.Flags != FlagClosing {
			t.Errorf("shutdown with flags %v", m.Flags)
		}
		r.sendMessage(Message{Type: TypeShutdown, Flags: FlagTaken})
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestPeerThatClosedIsNoReset has the peer close in good order and end the connection: the
// stream fails with ErrPeerClosed, and a Read returns the end of the stream.
//
// Source: [WSD §7]
func TestPeerThatClosedIsNoReset(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{}, true)
		r.sendMessage(Message{Type: TypeShutdown, Flags: FlagClosing})
		if m := r.receive(TypeShutdown); m.Flags != FlagTaken {
			t.Errorf("the answer has flags %v", m.Flags)
		}
		r.sock.Close()
		<-s.c.over
		if err := s.c.failure(); !errors.Is(err, ErrPeerClosed) || errors.Is(err, ErrReset) {
			t.Errorf("the stream ended with %v", err)
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // as io.Reader says
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}
