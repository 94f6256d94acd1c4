package smbserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// notified makes a client that takes notifications, with a tree connect to a share.
func notified(t *testing.T, addr, share string, change func(*raw)) *raw {
	t.Helper()
	c := dial(t, addr)
	c.caps = byte(smbwire.CapNotifications)
	if change != nil {
		change(c)
	}
	if r := c.mustNegotiate(0x0311); le.Uint32(r.body[24:])&smbwire.CapNotifications == 0 {
		t.Error("the server has no notifications")
	}
	c.mustSetup(testUser, testPassword)
	c.mustConnect(share)
	return c
}

// wantDrained fails the test unless the next message announces the end of the session, and the connection
// ends behind it.
func (c *raw) wantDrained() {
	c.t.Helper()
	r := c.recv()[0]
	n, err := smbwire.DecodeNotification(r.body)
	if err != nil || r.command != uint16(smbwire.CommandNotification) || r.id != smbwire.OplockBreakMessageID || r.session != c.session ||
		n != (smbwire.Notification{Type: smbwire.NotifySessionClosed, Mark: smbwire.DrainedMark}) {
		c.t.Fatalf("%+v, %v", r, err)
	}
	c.wantCut()
}

// A server that is stopped announces it to each client that takes notifications, behind the responses to all
// requests that it has begun, and not before others is closed. A request that waits is not begun. A
// request that arrives later is not executed.
//
// Source: [MS-SMB2 2.2.44], [OP-56]
func TestShutdownAnnouncesEnd(t *testing.T) {
	for name, change := range map[string]func(*raw){
		"signed":    nil,
		"encrypted": func(c *raw) { c.offer = []smbauth.Cipher{smbauth.AES128GCM} },
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, dir := testServer(t, nil)
			a, b, old := notified(t, addr, "data", change), notified(t, addr, "data", change), mount(t, addr, "data")
			g := b.mustCreate(rw("f"))
			holder := lockedFile(t, s, "f") // not a client, whose end could grant the lock
			b.pend(g, element{0, 1, lockExclusive})
			others, done := make(chan struct{}), make(chan error, 1)
			go func() { done <- s.Shutdown(context.Background(), others) }()
			for !readNoMore(s) {
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-done:
				t.Fatalf("shutdown before the others: %v", err)
			default:
			}
			b.send(b.message(cmdWrite, writeBody(g, 10, []byte("late"))))
			close(others)
			a.wantDrained()
			b.wantDrained()
			old.wantCut()
			if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Size() != 0 {
				t.Errorf("the late write was executed: %v, %v", info, err)
			}
			if err := errors.Join(<-done, holder.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// lockedFile opens a file and locks its first byte.
func lockedFile(t *testing.T, s *Server, path string) *vfs.Open {
	t.Helper()
	o, _, err := s.cfg.FS.Open(vfs.OpenRequest{
		Share: "data", Path: path, Access: vfs.GenericAll, ShareMode: vfs.ShareAll, Disposition: vfs.OpenIf, Owner: "holder",
	})
	if err == nil {
		err = o.TryLock(vfs.Lock{Range: vfs.Range{Len: 1}, Exclusive: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// readNoMore reports whether the connections of a server begin no more messages.
func readNoMore(s *Server) bool {
	for _, c := range s.connections() {
		c.reader.mu.Lock()
		stopped := c.reader.stopped
		c.reader.mu.Unlock()
		if !stopped {
			return false
		}
	}
	return true
}

// A CREATE that waits for the break of a lease when the server is stopped is not begun: a client that takes
// notifications has no response to it, any other client has CANCELLED.
//
// Source: [MS-SMB2 2.2.44], [OP-56]
func TestShutdownEndsWaitForBreak(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	holder, _, err := s.cfg.FS.Open(vfs.OpenRequest{
		Share: "data", Path: "f", Access: vfs.GenericAll, ShareMode: vfs.ShareAll, Disposition: vfs.OpenIf, Owner: "holder",
		Lease: &vfs.LeaseRequest{State: stateRWH, Broken: func(vfs.LeaseBreak) vfs.LeaseReach { return vfs.LeaseReached }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	c, old := notified(t, addr, "data", nil), mount(t, addr, "data")
	c.begin(rw("f"))
	old.begin(rw("f"))
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background(), nil) }()
	c.wantDrained()
	if r := old.recv()[0]; r.command != cmdCreate || r.status != ntstatus.Cancelled {
		t.Errorf("command %d: %v", r.command, r.status)
	}
	old.wantCut()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection that is logging on when the server is stopped logs on. Its client may not have the keys of the
// session yet: the connection ends without an announcement.
//
// Source: [MS-SMB2 2.2.44]
func TestShutdownLetsClientLogOn(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.caps = byte(smbwire.CapNotifications)
	c.mustNegotiate(0x0311)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background(), nil) }()
	for !s.isStopped() {
		time.Sleep(time.Millisecond)
	}
	c.mustSetup(testUser, testPassword)
	c.wantCut()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// lateListener accepts one connection while it is being closed.
type lateListener struct {
	closed chan struct{}
	nc     net.Conn
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.closed
	if nc := l.nc; nc != nil {
		l.nc = nil
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (l *lateListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *lateListener) Addr() net.Addr { return &net.TCPAddr{} }

// A connection that the server accepts when it is stopped is not refused: its client logs on.
func TestShutdownServesLateConnection(t *testing.T) {
	s, _, _ := testServer(t, nil)
	client, server := net.Pipe()
	l := &lateListener{closed: make(chan struct{}), nc: server}
	served, done := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for listening := false; !listening; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		_, listening = s.listeners[l]
		s.mu.Unlock()
	}
	go func() { done <- s.Shutdown(context.Background(), nil) }()
	c := &raw{t: t, nc: client, caps: byte(smbwire.CapNotifications)}
	c.mustNegotiate(0x0311)
	c.mustSetup(testUser, testPassword)
	c.wantCut()
	client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}
