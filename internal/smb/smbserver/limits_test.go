package smbserver

import (
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// stalled is the server's end of a connection, for which time passes as a test says. The limits
// of time that a server of patient has are an hour.
type stalled struct {
	net.Conn

	mu          sync.Mutex
	read, write bool // a limit is set
}

func patient(c *Config) { c.AuthTimeout, c.StallTimeout = time.Hour, time.Hour }

func (c *stalled) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = !t.IsZero()
	return c.Conn.SetReadDeadline(t)
}

func (c *stalled) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = !t.IsZero()
	return c.Conn.SetWriteDeadline(t)
}

// pass lets so much time pass that what has a limit is over.
func (c *stalled) pass(reading, writing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	past := time.Unix(1, 0)
	if reading && c.read {
		_ = c.Conn.SetReadDeadline(past) // it may be closed already
	}
	if writing && c.write {
		_ = c.Conn.SetWriteDeadline(past)
	}
}

// patientMount connects to a share over a connection of which the test says how time passes.
func patientMount(t *testing.T, s *Server) (*raw, *stalled) {
	t.Helper()
	a, b := tcpPair(t)
	over := &stalled{Conn: b}
	s.ServeConn(over)
	c := &raw{t: t, nc: a}
	c.mustNegotiate(0x0311)
	c.mustSetup(testUser, testPassword)
	c.mustConnect("data")
	return c, over
}

// tcpPair is both ends of a connection; the test closes the first.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// until lets time pass on a connection until its session has ended.
func (c *stalled) until(t *testing.T, ss *Session, reading, writing bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		select {
		case <-ss.Done():
			return
		default:
			c.pass(reading, writing)
		}
		if time.Now().After(end) {
			t.Fatal("the connection is not cut")
		}
	}
}

// authTimeIsOver lets the time for authentication be over of connections that have to hurry.
func authTimeIsOver(s *Server) {
	for _, c := range s.connections() {
		c.sessions.mu.Lock()
		if c.sessions.deadline.Stop() {
			c.sessions.deadline.Reset(0)
		}
		c.sessions.mu.Unlock()
	}
}

// Who says nothing is cut when the time for that is over.
func TestSilentPeerIsCut(t *testing.T) {
	_, addr, _ := testServer(t, func(c *Config) { c.AuthTimeout = time.Millisecond })
	dial(t, addr).wantCut()
}

// Source: [MS-SMB2 3.3.6] (limits of time are ours)
func TestSilentPeersAreCutInTime(t *testing.T) {
	s, addr, _ := testServer(t, patient)
	silent := dial(t, addr)
	half := dial(t, addr)
	half.write([]byte{0, 0, 1, 0, 0xfe, 'S'})
	halfway := dial(t, addr)
	halfway.mustNegotiate(0x0311)
	other := mount(t, addr, "data") // the server knows those before, too
	authTimeIsOver(s)
	for _, cut := range []*raw{silent, half, halfway} {
		cut.wantCut()
	}
	other.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})

	// Who logs off has to authenticate anew in time.
	other.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	authTimeIsOver(s)
	other.wantCut()
}

// Who has authenticated may be silent, but not in the middle of a message.
func TestSilenceWithinAMessage(t *testing.T) {
	s, _, _ := testServer(t, patient)
	c, over := patientMount(t, s)
	for range 100 {
		over.pass(true, true)
	}
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	ss := s.session(c.session)
	c.write([]byte{0, 0, 1, 0, 0xfe})
	over.until(t, ss, true, false)
	c.wantCut()
}

// A client that does not read its answers is cut, and nobody else notices.
func TestClientThatDoesNotRead(t *testing.T) {
	s, addr, _ := testServer(t, patient)
	c, over := patientMount(t, s)
	ss := s.session(c.session)
	id := c.mustCreate(rw("f"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, make([]byte, 60000)))
	for range 8 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	var all []byte
	for range 400 {
		all = append(all, c.frame(c.message(cmdRead, readBody(id, 0, 60000, 0)))...)
	}
	c.write(all)
	over.until(t, ss, false, true)
	mount(t, addr, "data")
}
