package rsock

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// stopper is what can make a provider's side do nothing any more, as a process that is
// stopped.
type stopper struct {
	mu      sync.Mutex
	stopped chan struct{} // nil: it runs
}

// wrap gives a provider whose posts wait while it is stopped.
func (s *stopper) wrap(p rdma.Provider) rdma.Provider {
	return fault.Wrap(p, &fault.Config{Fault: func(fault.Attempt) fault.Action {
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		if stopped != nil {
			<-stopped
		}
		return fault.Pass()
	}})
}

// stop stops it; the function that is returned lets it go on.
func (s *stopper) stop() (proceed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = make(chan struct{})
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.stopped)
		s.stopped = nil
	})
}

// TestCloseOfAStoppedPeer: Close returns although the peer does nothing; what was written is
// delivered when it goes on, which Drain waits for. With SetLinger it is Close that waits.
func TestCloseOfAStoppedPeer(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		for _, linger := range []bool{false, true} {
			var peer stopper
			l := listenOn(t, &ListenConfig{Config: with(peer.wrap(provider()))}, "127.0.0.1:0")
			d := &Dialer{Config: with(provider())}
			c, a := pairOf(t, d, l)
			mustBe(t, c, a, provider().Name())
			echo(t, c, a)
			if linger {
				if err := c.SetLinger(60); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.WriteString(c, "the last"); err != nil {
				t.Fatal(err)
			}
			proceed := peer.stop()
			t.Cleanup(proceed)
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			if linger {
				for !isClosing(c) {
					time.Sleep(time.Millisecond)
				}
			} else if err := <-closed; err != nil {
				t.Error(err)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write after Close: %v", err)
			}
			wantIs(t, c.Close(), net.ErrClosed)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := d.Drain(ended); errors.Is(err, context.Canceled) == linger {
				t.Errorf("Drain while the peer is stopped, with a Close that waits %v: %v", linger, err)
			}
			proceed()
			if got, err := io.ReadAll(a); err != nil || string(got) != "the last" {
				t.Errorf("read %q, %v", got, err)
			}
			if err := d.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if linger {
				if err := <-closed; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// isClosing tells whether Close was called.
func isClosing(c *Conn) bool {
	_, err := c.Write(nil)
	return errors.Is(err, net.ErrClosed)
}

// TestListenerDrain: that of a listener waits for connections that it has handed out.
func TestListenerDrain(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var peer stopper
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		c, a := pairOf(t, &Dialer{Config: with(peer.wrap(provider()))}, l)
		echo(t, c, a)
		proceed := peer.stop()
		t.Cleanup(proceed)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		wantIs(t, l.Drain(ended), context.Canceled)
		proceed()
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPartingsAreBounded: so many closes go on in the background, and no more.
func TestPartingsAreBounded(t *testing.T) {
	var p draining
	if err := p.wait(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		for range maxDraining {
			if !p.begin() {
				t.Fatal("there is no room")
			}
		}
		if p.begin() {
			t.Errorf("more than %d are in the background", maxDraining)
		}
		done := make(chan error, 1)
		go func() { done <- p.wait(t.Context()) }()
		for range maxDraining {
			p.end()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
