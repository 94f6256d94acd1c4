package smbshare_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/lwiotest"
)

// forger is an attacker on the network that answers logons in place of the server.
type forger struct {
	server string
	forges atomic.Int32 // so many refusals; negative without end
	forged atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
	all   sync.WaitGroup
}

// dial connects a client to the server, through the attacker.
func (f *forger) dial(context.Context, string, string) (net.Conn, error) {
	far, err := net.Dial("tcp", f.server)
	if err != nil {
		return nil, err
	}
	near, client := net.Pipe()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, far, near)
	pass := func(to, from net.Conn, change func([]byte)) {
		defer to.Close()
		for {
			b := make([]byte, 4, 64<<10)
			if _, err := io.ReadFull(from, b); err != nil {
				return
			}
			b = b[:4+int(binary.BigEndian.Uint32(b))]
			if _, err := io.ReadFull(from, b[4:]); err != nil {
				return
			}
			change(b[4:])
			if _, err := to.Write(b); err != nil {
				return
			}
		}
	}
	f.all.Go(func() { pass(far, near, func([]byte) {}) })
	f.all.Go(func() { pass(near, far, f.forge) })
	return client, nil
}

// forge makes the first response to a logon a refusal.
func (f *forger) forge(msg []byte) {
	if smbwire.Command(binary.LittleEndian.Uint16(msg[12:])) != smbwire.CommandSessionSetup ||
		ntstatus.Status(binary.LittleEndian.Uint32(msg[8:])) != ntstatus.MoreProcessingRequired || f.forges.Load() == f.forged.Load() {
		return
	}
	f.forged.Add(1)
	binary.LittleEndian.PutUint32(msg[8:], uint32(ntstatus.LogonFailure))
}

// stop ends a session, which makes no connection any more, and all connections.
func (f *forger) stop(sess smbshare.Session) {
	_ = sess.Close(context.Background()) // which may have ended
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.conns {
		nc.Close()
	}
	f.all.Wait()
}

// A refused logon has no signature. A refusal that an attacker makes while the client replaces a lost connection does not
// end its session.
func TestForgedRefusalDoesNotEndTheSession(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	f := &forger{server: s.Addr()}
	sess, raw, err := signIn(t, s, func(_ *base.Target, cfg *base.Config) {
		cfg.DialContext, cfg.ReconnectTimeout = f.dial, 2*time.Second
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop(sess)
	f.forges.Store(1)
	raw.Close()
	for sess.State().Away == nil && sess.State().Reconnects == 0 {
		_ = sess.Err() // notices the loss
		time.Sleep(time.Millisecond)
	}
	if err := sess.Await(t.Context()); err != nil {
		t.Fatalf("after %d forged refusals: %v", f.forged.Load(), err)
	}
	if n := f.forged.Load(); n != 1 {
		t.Errorf("%d refusals were forged", n)
	}
	if _, err := sess.Stat(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

// A refusal that all attempts bring for Config.ReconnectTimeout ends the session, and names the cause.
func TestLastingRefusalEndsTheSession(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	f := &forger{server: s.Addr()}
	sess, raw, err := signIn(t, s, func(_ *base.Target, cfg *base.Config) {
		cfg.DialContext, cfg.ReconnectTimeout = f.dial, 50*time.Millisecond
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop(sess)
	f.forges.Store(-1)
	raw.Close()
	for sess.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	err = sess.Await(t.Context())
	if !errors.Is(err, ntstatus.LogonFailure) || !strings.Contains(err.Error(), "refuses another session") {
		t.Error(err)
	}
	if n := f.forged.Load(); n < 2 {
		t.Errorf("ended after %d refusals", n)
	}
}
