package smbserver

import (
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// stalled is the server's end of a connection whose deadlines expire when a test calls pass.
// The deadlines of a server with the configuration of patient are an hour.
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

// pass makes the deadlines that are set expire.
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

// patientMount connects to a share over a stalled connection.
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

// tcpPair returns both ends of a connection; the end of the test closes the first.
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

// until makes deadlines of a connection expire until its session has ended.
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

// authTimeIsOver ends the time limit of connections without an authenticated session.
func authTimeIsOver(s *Server) {
	for _, c := range s.connections() {
		c.sessions.mu.Lock()
		if c.sessions.deadline.Stop() {
			c.sessions.deadline.Reset(0)
		}
		c.sessions.mu.Unlock()
	}
}

// A silent connection is cut at the end of the authentication timeout.
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
	other := mount(t, addr, "data") // the server has accepted those before, too
	authTimeIsOver(s)
	for _, cut := range []*raw{silent, half, halfway} {
		cut.wantCut()
	}
	other.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})

	// After LOGOFF the connection has to authenticate anew in time.
	other.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	authTimeIsOver(s)
	other.wantCut()
}

// An authenticated connection may be silent, but not within a message.
func TestSilenceWithinAMessageIsCut(t *testing.T) {
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

// A client that does not read its responses is cut; others are served.
func TestClientThatDoesNotReadIsCut(t *testing.T) {
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
