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

// stopper stops one side of a provider, as if its process were stopped.
type stopper struct {
	mu      sync.Mutex
	stopped chan struct{} // nil: the side runs
}

// wrap returns a provider whose posts wait while the side is stopped.
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

// stop stops the side; the returned function lets it go on.
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

// TestCloseWithStoppedPeer closes while the peer is stopped: Close returns, the written data is
// delivered when the peer goes on, and Drain waits for that. With SetLinger Close waits.
func TestCloseWithStoppedPeer(t *testing.T) {
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

// isClosing reports whether Close was called.
func isClosing(c *Conn) bool {
	_, err := c.Write(nil)
	return errors.Is(err, net.ErrClosed)
}

// TestListenerDrainWaits drains a listener with a closed connection that is still
// delivering: Drain waits.
func TestListenerDrainWaits(t *testing.T) {
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

// TestDrainingIsBounded begins maxDraining closes in the background, and one more.
func TestDrainingIsBounded(t *testing.T) {
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
