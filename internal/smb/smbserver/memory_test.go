package smbserver

import (
	"bytes"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
	"lwio/internal/test/quiet"
)

// A user that requests reads on many connections and takes no response holds a bounded part
// of the memory; others read and write.
func TestUnreadResponsesHoldBoundedMemory(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Memory, c.StallTimeout = 1, time.Hour })
	good := dial(t, addr)
	good.mustNegotiate(0x0311)
	good.mustSetup("bob", testPassword)
	good.mustConnect("data")
	id := good.mustCreate(rw("f"))
	data := make([]byte, 1<<20)
	write := func(c *raw, id [16]byte) {
		c.send(c.charge(c.message(cmdWrite, writeBody(id, 0, data)), 16))
		if r := c.recv(); r[0].status != ntstatus.Success {
			t.Fatal(r[0].status)
		}
	}
	for range 16 { // for the credits
		good.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	write(good, id)
	for range 10 {
		c := mount(t, addr, "data")
		id := c.mustCreate(rw("f"))
		for range 8 {
			c.send(c.charge(c.message(cmdRead, readBody(id, 0, 1<<20, 0)), 16))
		}
	}
	for range 5 {
		write(good, id)
	}
	for hers, end := int64(0), time.Now().Add(ioTimeout); hers < 2<<20; {
		if time.Now().After(end) {
			t.Fatalf("the user is charged for %d bytes of 80 responses", hers)
		}
		m := s.memory
		if hers = m.HeldBy(testUser); m.Held() > m.Limit() || hers > m.UserLimit() {
			t.Errorf("%d bytes of %d, one user %d", m.Held(), m.Limit(), hers)
		}
		runtime.Gosched()
	}
}

// A compound that ends with the connection gives back the memory of its earlier responses.
//
// Source: [MS-SMB2 3.3.5.15.12]
func TestDroppedCompoundReturnsItsMemory(t *testing.T) {
	s, addr, dir := testServer(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	c := login(t, addr, 0x0302)
	c.mustConnect("data")
	id := c.mustCreate(rw("f"))
	c.send(
		c.message(cmdRead, readBody(id, 0, 1<<16, 0)),
		c.message(cmdIoctl, ioctlBody(noID, 0x00140204, make([]byte, 26), 24)), // wrong, so that the server cuts
	)
	c.wantCut()
	for end := time.Now().Add(ioTimeout); s.memory.Held() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are not given back", s.memory.Held())
		}
	}
}

// flood logs on over a connection without buffers, sends requests of one kind in the background,
// until the server takes no more or the credits are used up, and reads no response. Each frame is a
// compound of as many requests as it may have.
func flood(t *testing.T, s *Server, kind flooder) {
	t.Helper()
	there, here := net.Pipe()
	s.ServeConn(there)
	c := &raw{t: t, nc: here}
	if kind.cipher != smbauth.NoCipher {
		c.offer = []smbauth.Cipher{kind.cipher}
	}
	c.mustNegotiate(0x0311)
	c.mustSetup(testUser, testPassword)
	c.mustConnect("data")
	next := kind.begin(c)
	for range 4 { // the client asks for as many credits as it gets
		m := c.message(cmdEcho, []byte{4, 0, 0, 0})
		le.PutUint16(m[14:], DefaultMaxCredits)
		c.send(m)
		c.recv()
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { here.Close(); wg.Wait() })
	if err := here.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for last := c.id + DefaultMaxCredits - 200; c.id < last; {
			var all [][]byte
			for size := 0; size < 64<<10 && c.id < last && len(all) < maxCompound; {
				m := next()
				all, size = append(all, m), size+len(m)
				if kind.single {
					break
				}
			}
			if _, err := here.Write(c.frame(all...)); err != nil {
				return
			}
		}
	})
}

// flooder is a kind of requests that a client sends without an end.
type flooder struct {
	command uint16
	single  bool // no compounds
	cipher  smbauth.Cipher
	// begin prepares a connection. The result makes the messages.
	begin func(c *raw) func() []byte
}

// flooders returns requests of all commands, by name.
func flooders() map[string]flooder {
	file := func(command uint16, body func(id [16]byte) []byte) flooder {
		return flooder{command: command, begin: func(c *raw) func() []byte {
			id := c.mustCreate(rw("f"))
			return func() []byte { return c.message(command, body(id)) }
		}}
	}
	fixed := func(command uint16, body []byte) flooder {
		return flooder{command: command, begin: func(c *raw) func() []byte {
			return func() []byte { return c.message(command, body) }
		}}
	}
	long := func(f flooder) flooder { // of 1 MiB
		begin := f.begin
		f.begin = func(c *raw) func() []byte {
			next := begin(c)
			return func() []byte { return c.charge(next(), 16) }
		}
		return f
	}
	sealed := func(f flooder) flooder { f.cipher = smbauth.AES128GCM; return f }
	alone := func(f flooder) flooder { f.single = true; return f }
	list := func(n uint32) flooder {
		return flooder{command: cmdQueryDirectory, begin: func(c *raw) func() []byte {
			id := c.mustCreate(create{access: 0x81, share: 7, disposition: 1, options: 1})
			return func() []byte { return c.message(cmdQueryDirectory, findBody(id, 37, 1, "*", n)) }
		}}
	}
	pipe := func(command uint16, body func(id [16]byte) []byte) flooder {
		return flooder{command: command, begin: func(c *raw) func() []byte {
			c.mustConnect("IPC$")
			id := c.mustCreate(rw("echo"))
			return func() []byte { return c.message(command, body(id)) }
		}}
	}
	lock := func(flags uint32) flooder {
		f := file(cmdLock, func(id [16]byte) []byte { return lockBody(id, element{0, 10, flags}) })
		begin := f.begin
		f.begin = func(c *raw) func() []byte { // another open has the range, perhaps of another connection
			c.call(cmdLock, lockBody(c.mustCreate(rw("f")), element{0, 10, lockExclusive | lockNow}))
			return begin(c)
		}
		return f
	}
	notify := func(n uint32) flooder { // each waits
		return flooder{command: cmdChangeNotify, begin: func(c *raw) func() []byte {
			id := c.mustCreate(listable(""))
			return func() []byte { return c.message(cmdChangeNotify, notifyBody(id, 1, n, changedAll)) }
		}}
	}
	return map[string]flooder{
		"echo":                  fixed(cmdEcho, []byte{4, 0, 0, 0}),
		"encrypted echo":        sealed(fixed(cmdEcho, []byte{4, 0, 0, 0})),
		"negotiate":             alone(fixed(cmdNegotiate, negotiateBody(0x0311))),
		"session set-up":        alone(fixed(cmdSessionSetup, setupBody(make([]byte, 2<<10), 0))),
		"new session":           alone(newSessions()),
		"logoff":                fixed(cmdLogoff, []byte{4, 0, 0, 0}),
		"tree connect":          fixed(cmdTreeConnect, connectBody("IPC$")),
		"tree disconnect":       fixed(cmdTreeDisconnect, []byte{4, 0, 0, 0}),
		"create":                fixed(cmdCreate, rw("f").body()),
		"pipe":                  pipe(cmdCreate, func([16]byte) []byte { return rw("echo").body() }),
		"close":                 file(cmdClose, func(id [16]byte) []byte { return closeBody(id, 1) }),
		"flush":                 file(cmdFlush, func(id [16]byte) []byte { return append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...) }),
		"read":                  file(cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 64<<10, 0) }),
		"encrypted read":        sealed(file(cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 64<<10, 0) })),
		"single read":           alone(file(cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 64<<10, 0) })),
		"long read":             long(file(cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 1<<20, 0) })),
		"pipe read":             pipe(cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 64<<10, 0) }),
		"write":                 file(cmdWrite, func(id [16]byte) []byte { return writeBody(id, 0, make([]byte, 4<<10)) }),
		"encrypted write":       sealed(file(cmdWrite, func(id [16]byte) []byte { return writeBody(id, 0, make([]byte, 4<<10)) })),
		"long write":            file(cmdWrite, func(id [16]byte) []byte { return writeBody(id, 0, make([]byte, 63<<10)) }),
		"pipe write":            pipe(cmdWrite, func(id [16]byte) []byte { return writeBody(id, 0, make([]byte, 4<<10)) }),
		"lock":                  lock(lockExclusive | lockNow),
		"waiting lock":          alone(lock(lockExclusive)),
		"resume key":            file(cmdIoctl, func(id [16]byte) []byte { return ioctlBody(id, 0x00140078, nil, 64<<10) }),
		"transaction":           pipe(cmdIoctl, func(id [16]byte) []byte { return ioctlBody(id, 0x0011C017, make([]byte, 4<<10), 8<<10) }),
		"single transaction":    alone(pipe(cmdIoctl, func(id [16]byte) []byte { return ioctlBody(id, 0x0011C017, make([]byte, 4<<10), 8<<10) })),
		"cancel":                fixed(cmdCancel, []byte{4, 0, 0, 0}),
		"query directory":       list(64 << 10),
		"long query directory":  long(list(1 << 20)),
		"change notify":         alone(notify(64 << 10)),
		"related change notify": notify(100),
		"copy within server":    long(copying()),
		"query info":            file(cmdQueryInfo, func(id [16]byte) []byte { return queryBody(id, 1, 18, 0, 64<<10) }),
		"security":              file(cmdQueryInfo, func(id [16]byte) []byte { return queryBody(id, 3, 0, 7, 64<<10) }),
		"set info":              file(cmdSetInfo, func(id [16]byte) []byte { return setBody(id, 1, 20, make([]byte, 8)) }),
		"oplock break":          file(cmdOplockBreak, func(id [16]byte) []byte { return append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...) }),
		"wrong command":         fixed(77, make([]byte, 64)),
	}
}

// copying returns copies of 16 chunks of a file of 1 MiB.
func copying() flooder {
	return flooder{command: cmdIoctl, begin: func(c *raw) func() []byte {
		from, to := c.mustCreate(rw("f")), c.mustCreate(rw("h"))
		r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(from, fsctlResumeKey, nil, 32))
		var list []chunk
		for range 16 {
			list = append(list, chunk{n: 1 << 20})
		}
		return func() []byte {
			return c.message(cmdIoctl, ioctlBody(to, fsctlCopyChunk, copyInput(r.body[48:72], list...), 12))
		}
	}}
}

// newSessions returns the first messages of sessions.
func newSessions() flooder {
	return flooder{command: cmdSessionSetup, begin: func(c *raw) func() []byte {
		token := beginLogon(c.t.(*testing.T), smbauth.MaxToken)
		return func() []byte {
			m := c.message(cmdSessionSetup, setupBody(token, 0))
			le.PutUint64(m[40:], 0)
			return m
		}
	}}
}

// A client sends messages of each command on several connections and reads no response. The memory
// that the server holds for it stays within the limit of the user and the allowances of its
// connections, by the accountant and by the heap. Another user is served meanwhile, and all memory
// comes back when the client leaves.
//
// Source: [MS-SMB2 3.3.5.2] (the limits are ours)
func TestClientThatNeverReadsHoldsBoundedMemory(t *testing.T) {
	kinds := flooders()
	for code, c := range commands {
		if c.serve != nil && !slices.ContainsFunc(slices.Collect(maps.Values(kinds)), func(f flooder) bool { return f.command == uint16(code) }) {
			t.Errorf("no test floods the server with command %d", code)
		}
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { testClientThatNeverReads(t, kind) })
	}
}

func testClientThatNeverReads(t *testing.T, kind flooder) {
	const connections, memory = 4, 4352 << 10
	s, addr, dir := testServer(t, func(c *Config) {
		c.Memory, c.StallTimeout, c.MaxWaits = memory, time.Hour, 64
		c.Pipes = map[string]PipeHandler{"echo": testPipe{}}
	})
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	good := dial(t, addr)
	good.mustNegotiate(0x0311)
	good.mustSetup("bob", testPassword)
	good.mustConnect("data")
	id := good.mustCreate(rw("g"))
	good.want(ntstatus.Success, cmdWrite, writeBody(id, 0, make([]byte, 4096)))
	quiet.Wait()
	before := heapInUse()
	for range connections {
		flood(t, s, kind)
	}
	quiet.Wait()
	for range 5 {
		good.want(ntstatus.Success, cmdRead, readBody(id, 0, 4096, 0))
	}
	quiet.Wait()
	held := s.memory.HeldBy(testUser)
	if most := s.memory.UserLimit(); held > most {
		t.Errorf("the user holds %d bytes of %d", held, most)
	}
	if n, most := int64(heapInUse())-int64(before), held+connections*(64<<10)+4<<20; n > most {
		t.Errorf("%d bytes of heap, at most %d expected", n, most)
	}
}

// heapInUse returns the bytes of live objects, without the free buffers of pools.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first one leaves the objects of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Peers that negotiate, begin sessions with long tokens and a message of the largest size, and then
// say nothing, cost less than 64 KiB each.
func TestUnauthenticatedPeerHoldsLessThan64KiB(t *testing.T) {
	for name, tickets := range map[string]*fakeTickets{"NTLM": nil, "Kerberos": {}} {
		t.Run(name, func(t *testing.T) { unauthenticatedPeers(t, tickets) })
	}
}

func unauthenticatedPeers(t *testing.T, tickets *fakeTickets) {
	const peers = 300
	s, addr, _ := testServer(t, func(c *Config) {
		patient(c)
		if tickets != nil {
			c.Kerberos = tickets
		}
	})
	before := heapInUse()
	for range peers {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		for n := range maxPending + 1 {
			c.session = 0
			token := beginLogon(t, smbauth.MaxToken)
			want := ntstatus.MoreProcessingRequired
			if n == maxPending {
				want = ntstatus.InsufficientResources
			}
			c.want(want, cmdSessionSetup, setupBody(token, 0))
		}
		part := c.frame(make([]byte, s.cfg.unauthenticatedLimit()))
		c.write(part[:len(part)-1])
	}
	time.Sleep(50 * time.Millisecond) // the server reads the messages
	if each := int64(heapInUse()-before) / peers; each > 64<<10 {
		t.Errorf("%d bytes for each peer", each)
	}
}

// The longest message before authentication is within the allowance of a connection, also beside two
// sessions that are being set up: the peer gets a response, and the next message too.
func TestLongestUnauthenticatedMessageFitsBesideTwoSessions(t *testing.T) {
	for name, tickets := range map[string]*fakeTickets{"NTLM": nil, "Kerberos": {}} {
		t.Run(name, func(t *testing.T) {
			s, addr, _ := testServer(t, func(c *Config) {
				if tickets != nil {
					c.Kerberos = tickets
				}
			})
			c := dial(t, addr)
			c.mustNegotiate(0x0311)
			for range maxPending {
				c.session = 0
				c.want(ntstatus.MoreProcessingRequired, cmdSessionSetup, setupBody(beginLogon(t, smbauth.MaxToken), 0))
			}
			c.session = 0
			body := make([]byte, s.cfg.unauthenticatedLimit()-smbwire.HeaderSize)
			body[0] = 4
			for range 2 {
				c.want(ntstatus.Success, cmdEcho, body)
			}
		})
	}
}

// beginLogon returns the first token of a logon, of n bytes.
func beginLogon(t *testing.T, n int) []byte {
	t.Helper()
	i := smbauth.NewInitiator(smbauth.InitiatorConfig{User: testUser, Password: testPassword, TargetSPN: "cifs/x"})
	token, _, err := i.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(token, []byte("NTLMSSP\x00"))
	if at < 0 {
		t.Fatalf("no NTLM in %x", token)
	}
	return append(token[at:], make([]byte, n-len(token)+at)...)
}

// A token above the bound is refused, and so is a compound before authentication.
func TestUnauthenticatedMessagesAreBounded(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := c.call(cmdSessionSetup, setupBody(beginLogon(t, smbauth.MaxToken+1), 0)); r.status == ntstatus.MoreProcessingRequired {
		t.Errorf("a token above the bound: %v", r.status)
	}
	c.session = 0
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}), c.message(cmdEcho, []byte{4, 0, 0, 0}))
	c.wantCut()
	c = dial(t, addr)
	c.mustNegotiate(0x0311)
	body := make([]byte, unauthenticatedLimit-smbwire.HeaderSize+1)
	body[0] = 4
	c.send(c.message(cmdEcho, body)) // one byte more than the server answers
	c.wantCut()
}

// The SMB connections of a user are bounded, in all spellings. A connection counts once however
// many sessions of the user it has, and until the last of them ends; a session that replaces
// another one takes its place.
func TestSMBConnectionsOfAUserAreBounded(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.MaxUserConnections = 2 })
	connect := func(user string, previous uint64) (*raw, ntstatus.Status) {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		return c, c.setup(user, testPassword, previous).status
	}
	first, _ := connect("boss", 0)
	second, _ := connect("BOSS", 0)
	again := *second
	again.session, again.signer = 0, nil
	if r := again.setup("boss", testPassword, 0); r.status != ntstatus.Success {
		t.Errorf("a second session on a connection: %v", r.status)
	}
	if _, st := connect("bo\u017fs", 0); st != ntstatus.RequestNotAccepted {
		t.Errorf("a third connection: %v", st)
	}
	if _, st := connect("bob", 0); st != ntstatus.Success {
		t.Errorf("another user: %v", st)
	}
	if _, st := connect("boss", first.session); st != ntstatus.Success {
		t.Errorf("a connection that replaces another: %v", st)
	}
	second.id = again.id
	second.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	if n := s.users.HeldBy("boss"); n != 2 {
		t.Errorf("%d connections while one session is left on the second", n)
	}
	again.id = second.id
	again.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	if n := s.users.HeldBy("boss"); n != 1 {
		t.Errorf("%d connections after both have logged off on the second", n)
	}
}

// The responses to a compound can be longer than the memory of the user: the server sends them in
// several messages, and none is refused.
//
// Source: [MS-SMB2 3.3.4.1.3]
func TestCompoundThatWaitsForMemoryIsAnswered(t *testing.T) {
	_, addr, dir := testServer(t, func(c *Config) { c.Memory = 1 })
	data := bytes.Repeat([]byte("x"), 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	for range 16 { // for the credits
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	var all [][]byte
	for range 6 {
		all = append(all, c.charge(c.message(cmdRead, readBody(id, 0, 1<<20, 0)), 16))
	}
	c.send(all...)
	for n := 0; n < len(all); {
		for _, r := range c.recv() {
			if r.status != ntstatus.Success || !bytes.Equal(r.body[16:16+len(data)], data) {
				t.Fatalf("read %d: %v", n, r.status)
			}
			n++
		}
	}
}
