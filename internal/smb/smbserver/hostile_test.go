package smbserver

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"net"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// Source: [MS-SMB2 3.3.5.2]
func TestHostilePeersAreCut(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	good := mount(t, addr, "data")
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	header := func(change func(m []byte)) []byte {
		m := (&raw{}).message(cmdNegotiate, negotiateBody(0x0311))
		change(m)
		return frame(m)
	}
	for name, b := range map[string][]byte{
		"garbage":                []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros":                  make([]byte, 100),
		"huge frame":             {0, 0xFF, 0xFF, 0xFF},
		"frame above limit":      {0, 2, 0, 0},
		"NetBIOS request":        {0x81, 0, 0, 4, 1, 2, 3, 4},
		"encrypted":              frame(append([]byte("\xfdSMB"), make([]byte, 100)...)),
		"compressed":             frame(append([]byte("\xfcSMB"), make([]byte, 100)...)),
		"header cut short":       frame([]byte("\xfeSMB\x40\x00\x00")),
		"header of odd size":     header(func(m []byte) { m[4] = 63 }),
		"a response":             header(func(m []byte) { m[16] = 1 }),
		"id from the future":     header(func(m []byte) { m[24] = 1 }),
		"compound out of range":  header(func(m []byte) { le.PutUint32(m[20:], 1<<31) }),
		"compound not aligned":   header(func(m []byte) { m[20] = 65 }),
		"compound onto itself":   header(func(m []byte) { m[20] = 8 }),
		"echo first":             header(func(m []byte) { m[12] = cmdEcho }),
		"session setup first":    header(func(m []byte) { m[12] = cmdSessionSetup }),
		"SMB 1, cut short":       frame([]byte("\xffSMB\x72")),
		"SMB 1, another command": frame(append([]byte("\xffSMB\x25"), make([]byte, 40)...)),
		"SMB 1, no end of name": func() []byte {
			b := smb1Negotiate("SMB 2.???")
			b[len(b)-1] = 'x'
			return b
		}(),
	} {
		c := dial(t, addr)
		c.write(b)
		t.Log(name)
		c.wantCut()
	}
	id := good.mustCreate(rw("f"))
	good.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("still here")))
}

// The server waits for the rest of a prefix of a negotiation or a session set-up; the
// connection ends with the peer.
func TestPartialMessagesAreNotServed(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	whole := (&raw{}).message(cmdNegotiate, negotiateBody(0x0311))
	f := (&raw{}).frame(whole)
	for n := 0; n < len(f); n += 7 {
		c := dial(t, addr)
		c.write(f[:n])
		c.nc.(*net.TCPConn).CloseWrite()
		if _, err := c.readFrame(); err == nil {
			t.Errorf("response to %d of %d bytes", n, len(f))
		}
	}
	if n := s.Stats().Sessions; n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// Peers that connect and send nothing, or a part of a message, do not keep clients out.
func TestUnauthenticatedConnectionsAreEvicted(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.MaxConnections, c.AuthTimeout = 3, time.Hour })
	first := mount(t, addr, "data")
	for i := range 20 {
		c := dial(t, addr)
		if i%2 == 0 {
			c.mustNegotiate(0x0311)
		}
	}
	second := mount(t, addr, "data")
	third := mount(t, addr, "data")
	for _, c := range []*raw{first, second, third} {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	// Authenticated connections are not evicted.
	dial(t, addr).wantCut()
	first.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	if st := s.Stats(); st.Connections != 3 || st.Refused != 1 {
		t.Errorf("%d connections, %d refused", st.Connections, st.Refused)
	}
}

// Source: [MS-SMB2 3.3.5.2.3]
func TestMessageIDsAreUsedOnce(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := login(t, addr, 0x0311)
	m := c.message(cmdEcho, []byte{4, 0, 0, 0})
	c.send(bytes.Clone(m))
	c.recv()
	c.send(m)
	c.wantCut()

	c = login(t, addr, 0x0311)
	c.id += 5000
	c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
	c.wantCut()
}

func TestConnectionsSessionsTreesAndOpensAreBounded(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) {
		c.MaxConnections, c.MaxSessions, c.MaxTrees, c.MaxOpens = 2, 2, 2, 2
	})
	c := mount(t, addr, "data")
	c.mustConnect("data")
	c.want(ntstatus.InsufficientResources, cmdTreeConnect, connectBody("data"))
	c.mustCreate(rw("a"))
	c.mustCreate(rw("b"))
	c.want(ntstatus.TooManyOpenedFiles, cmdCreate, rw("c").body())
	session, signer := c.session, c.signer
	c.session, c.signer = 0, nil
	c.mustSetup(testUser, testPassword)
	c.session, c.signer = 0, nil
	if r := c.call(cmdSessionSetup, setupBody([]byte("x"), 0)); r.status != ntstatus.InsufficientResources {
		t.Errorf("third session: %v", r.status)
	}
	c.session, c.signer = session, signer
	mount(t, addr, "data")
	dial(t, addr).wantCut() // the third connection
	if s.Stats().Refused == 0 {
		t.Error("no connection refused")
	}
}

// A user above its rate waits on all connections; others do not, and the end of the
// connection ends the wait.
func TestRequestsAboveTheRateWait(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Rates.Requests = 1000 })
	good := dial(t, addr)
	good.mustNegotiate(0x0311)
	good.mustSetup("bob", testPassword)
	first, second := mount(t, addr, "data"), mount(t, addr, "data")
	first.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	s.session(first.session).Limiter().Take(1<<40, 0)
	for _, c := range []*raw{first, second} {
		c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
	}
	good.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	s.Close()
	for _, c := range []*raw{first, second} {
		m, err := c.readFrame()
		if err == nil && ntstatus.Status(le.Uint32(m[8:])) != ntstatus.UserSessionDeleted {
			t.Errorf("response %x", m)
		}
	}
}

// A user that opens files on many connections leaves opens to others, and a session has few
// pipes.
func TestOpensOfAConnectionAreBounded(t *testing.T) {
	_, addr, _ := testServer(t, func(c *Config) {
		b, err := posix.OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if c.FS, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: b}}, MaxOpens: 80}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.FS.Close() })
		c.Pipes = map[string]PipeHandler{"echo": testPipe{}}
	})
	good := mount(t, addr, "data")
	opened := 0
	for i := range 4 {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		c.mustSetup([]string{"boss", "BOSS", "bo\u017fs", "Boss"}[i], testPassword)
		c.mustConnect("data")
		for range 40 {
			r := c.call(cmdCreate, rw("f").body())
			if r.status == ntstatus.Success {
				opened++
			} else if r.status != ntstatus.TooManyOpenedFiles {
				t.Fatal(r.status)
			}
		}
	}
	if opened != 60 {
		t.Errorf("one user has %d of 80", opened)
	}
	for range 20 {
		good.mustCreate(rw("f"))
	}
	good.mustConnect("IPC$")
	for range maxPipes {
		good.mustCreate(rw("echo"))
	}
	good.want(ntstatus.PipeNotAvailable, cmdCreate, rw("echo").body())
}

// Expensive compounds are bounded by credits; each failed request of a compound has a
// response.
func TestLongCompoundIsServed(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	for range 4 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	var msgs [][]byte
	for range 100 {
		msgs = append(msgs, c.message(cmdClose, closeBody([16]byte{9}, 0)))
	}
	c.send(msgs...)
	if got := c.recv(); len(got) != 100 || got[99].status != ntstatus.FileClosed {
		t.Errorf("%d responses", len(got))
	}
}

// The log lines about cut peers are bounded.
func TestLogOfUnauthenticatedPeersIsBounded(t *testing.T) {
	log := make(logMessages, 1000)
	start := time.Now()
	s, addr, _ := testServer(t, func(c *Config) { c.Logger = slog.New(log) })
	const peers = 50
	for range peers {
		c := dial(t, addr)
		c.write([]byte("GET / HTTP/1.1\r\n\r\n"))
		c.wantCut()
	}
	s.Close()
	lines := len(log)
	if most := 1 + int(time.Since(start)/ratelimit.LogInterval); lines < 1 || lines > most {
		t.Errorf("%d lines about %d peers, want 1 to %d", lines, peers, most)
	}
}
