package smbserver

import (
	"bytes"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// Levels and states, as the raw client writes them.
const (
	levelII    = 0x01
	levelBatch = 0x09
	levelLease = 0xFF

	stateR   = 1
	stateRH  = 3
	stateRWH = 7
)

// leaseKey returns the key of a number.
func leaseKey(n byte) []byte { return bytes.Repeat([]byte{n}, 16) }

// leased asks for a lease of version 1, or of version 2 with an epoch.
func leased(o create, key byte, state uint32, epoch ...uint16) create {
	b := le.AppendUint32(leaseKey(key), state)
	b = append(b, make([]byte, 12)...)
	for _, e := range epoch {
		b[20] = 4 // the parent key is set
		b = append(b, leaseKey(0xEE)...)
		b = le.AppendUint16(le.AppendUint16(b, e), 0)
	}
	o.oplock, o.contexts = levelLease, contextList(namedContext{"RqLs", b})
	return o
}

func oplocked(o create, level byte) create {
	o.oplock = level
	return o
}

// kept is leased for a persistent handle.
func kept(o create, guid int, key byte, state uint32) create {
	o = leased(o, key, state)
	lease := namedContext{"RqLs", o.contexts[len(o.contexts)-32:]}
	o.contexts = contextList(lease, durableRequest(guid, 0, 2))
	return o
}

// leaseIn returns the state, the flags and the epoch of the lease in a response to CREATE.
func leaseIn(t *testing.T, body []byte) (state, flags uint32, epoch uint16) {
	t.Helper()
	at, n := le.Uint32(body[80:]), le.Uint32(body[84:])
	if body[2] != levelLease || n == 0 {
		t.Fatalf("level %x, %d bytes of contexts", body[2], n)
	}
	b := body[at-64:]
	data := b[le.Uint16(b[10:]):][:le.Uint32(b[12:])]
	if len(data) == 52 {
		epoch = le.Uint16(data[48:])
		if !bytes.Equal(data[32:48], leaseKey(0xEE)) {
			t.Errorf("parent key %x", data[32:48])
		}
	}
	return le.Uint32(data[16:]), le.Uint32(data[20:]), epoch
}

// begin sends a CREATE that has to wait for a break, and reads the interim response.
func (c *raw) begin(o create) {
	c.t.Helper()
	c.send(c.message(cmdCreate, o.body()))
	if r := c.recv()[0]; r.status != ntstatus.Pending || r.flags&2 == 0 || r.command != cmdCreate {
		c.t.Fatalf("%v, flags %x, command %d", r.status, r.flags, r.command)
	}
}

// notified reads the notification of a break and returns its body.
func (c *raw) notified() []byte {
	c.t.Helper()
	r := c.recv()[0]
	if r.command != cmdOplockBreak || r.id != ^uint64(0) || r.status != ntstatus.Success || r.tree != 0 || r.flags&8 != 0 {
		c.t.Fatalf("command %d, message %x, %v, tree %d, flags %x", r.command, r.id, r.status, r.tree, r.flags)
	}
	if want := map[bool]uint64{true: c.session}[c.encrypts()]; r.session != want {
		c.t.Errorf("notification of session %x, want %x", r.session, want)
	}
	return r.body
}

// wantBreak reads the notification of the break of a lease.
func (c *raw) wantBreak(key byte, from, to uint32, ack bool, epoch uint16) {
	c.t.Helper()
	want := le.AppendUint16(le.AppendUint16(nil, 44), epoch)
	want = le.AppendUint32(want, map[bool]uint32{true: 1}[ack])
	want = append(want, leaseKey(key)...)
	want = le.AppendUint32(le.AppendUint32(want, from), to)
	want = append(want, make([]byte, 12)...)
	if got := c.notified(); !bytes.Equal(got, want) {
		c.t.Fatalf("notification %x, want %x", got, want)
	}
}

// goesOn acknowledges the break of a lease of version 1 with a state from, and reads the answer and the next break,
// which come in any order.
func (c *raw) goesOn(key byte, from, to uint32) {
	c.t.Helper()
	c.send(c.message(cmdOplockBreak, leaseAck(key, from)))
	answers, breaks := 0, 0
	for range 2 {
		switch r := c.recv()[0]; {
		case r.id != ^uint64(0):
			if answers++; r.status != ntstatus.Success || !bytes.Equal(r.body, leaseAck(key, from)) {
				c.t.Errorf("%v, answer %x", r.status, r.body)
			}
		default:
			breaks++
			if asks := le.Uint32(r.body[4:]) == 1; asks != (from != stateR) || le.Uint32(r.body[24:]) != from || le.Uint32(r.body[28:]) != to {
				c.t.Errorf("notification %x", r.body)
			}
		}
	}
	if answers != 1 || breaks != 1 {
		c.t.Fatalf("%d answers and %d breaks", answers, breaks)
	}
}

func oplockAck(id [16]byte, level byte) []byte {
	return append([]byte{24, 0, level, 0, 0, 0, 0, 0}, id[:]...)
}

func leaseAck(key byte, state uint32) []byte {
	b := append([]byte{36, 0, 0, 0, 0, 0, 0, 0}, leaseKey(key)...)
	return append(le.AppendUint32(b, state), make([]byte, 8)...)
}

// leaseClient is mount by the client with a GUID of its own.
func leaseClient(t testing.TB, addr string, guid byte, dialect uint16) *raw {
	t.Helper()
	c := dial(t, addr)
	c.guid = guid
	c.mustNegotiate(dialect)
	c.mustSetup(testUser, testPassword)
	c.mustConnect("data")
	return c
}

// A second open breaks a batch oplock, waits with an interim response, and goes on after the acknowledgement. The
// messages, byte by byte.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.5.22.1], [MS-SMB2 2.2.23.1], [MS-SMB2 2.2.25.1]
func TestBatchOplockIsBroken(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for _, dialect := range allDialects {
		a, b := leaseClient(t, addr, 1, dialect), leaseClient(t, addr, 2, dialect)
		r := a.want(ntstatus.Success, cmdCreate, oplocked(rw("f"), levelBatch).body())
		id := [16]byte(r.body[64:80])
		if r.body[2] != levelBatch {
			t.Fatalf("%x: level %x", dialect, r.body[2])
		}
		b.begin(oplocked(rw("f"), levelBatch))
		want := oplockAck(id, levelII)
		if got := a.notified(); !bytes.Equal(got, want) {
			t.Fatalf("%x: notification %x, want %x", dialect, got, want)
		}
		if r := a.want(ntstatus.Success, cmdOplockBreak, want); !bytes.Equal(r.body, want) {
			t.Errorf("%x: response %x", dialect, r.body)
		}
		r = b.recv()[0]
		if r.status != ntstatus.Success || r.body[2] != levelII {
			t.Fatalf("%x: %v, level %x", dialect, r.status, r.body[2])
		}
		// Both have level II. A write of one ends both, without an acknowledgement.
		other := [16]byte(r.body[64:80])
		b.send(b.message(cmdWrite, writeBody(other, 0, []byte("x"))))
		if got := a.notified(); !bytes.Equal(got, oplockAck(id, 0)) {
			t.Errorf("%x: notification %x", dialect, got)
		}
		own, done := b.recv()[0], b.recv()[0]
		if own.command == cmdWrite {
			own, done = done, own
		}
		if own.command != cmdOplockBreak || done.command != cmdWrite || done.status != ntstatus.Success {
			t.Errorf("%x: commands %d and %d, %v", dialect, own.command, done.command, done.status)
		}
		a.want(ntstatus.InvalidOplockProtocol, cmdOplockBreak, oplockAck(id, 0))
		a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
		b.want(ntstatus.Success, cmdClose, closeBody(other, 0))
	}
}

// Leases of both versions: the response, the break and the acknowledgement, byte by byte.
//
// Source: [MS-SMB2 2.2.14.2.10], [MS-SMB2 2.2.14.2.11], [MS-SMB2 2.2.23.2], [MS-SMB2 2.2.24.2], [MS-SMB2 2.2.25.2],
// [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11], [MS-SMB2 3.3.5.22.2]
func TestLeaseIsBroken(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for _, v2 := range []bool{false, true} {
		var epoch []uint16
		first, second := uint16(0), uint16(0)
		if v2 {
			epoch, first, second = []uint16{0x100}, 0x101, 0x102
		}
		a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
		r := a.want(ntstatus.Success, cmdCreate, leased(rw("f"), 1, stateRWH, epoch...).body())
		id := [16]byte(r.body[64:80])
		if state, flags, got := leaseIn(t, r.body); state != stateRWH || flags != map[bool]uint32{true: 4}[v2] || got != first {
			t.Errorf("state %x, flags %x, epoch %x", state, flags, got)
		}
		// The client's own key breaks nothing.
		r = a.want(ntstatus.Success, cmdCreate, leased(rw("f"), 1, stateR, epoch...).body())
		a.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))

		b.begin(leased(rw("f"), 1, stateRWH, epoch...)) // the same key of another client is another lease
		a.wantBreak(1, stateRWH, stateRH, true, second)
		r = a.want(ntstatus.Success, cmdCreate, leased(rw("f"), 1, stateR, epoch...).body())
		if _, flags, _ := leaseIn(t, r.body); flags&2 == 0 {
			t.Errorf("flags %x of a lease that is being broken", flags)
		}
		a.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))
		if r := a.want(ntstatus.Success, cmdOplockBreak, leaseAck(1, stateRH)); !bytes.Equal(r.body, leaseAck(1, stateRH)) {
			t.Errorf("response %x", r.body)
		}
		r = b.recv()[0]
		if state, _, _ := leaseIn(t, r.body); r.status != ntstatus.Success || state != stateRH {
			t.Errorf("%v, state %x", r.status, state)
		}
		b.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))
		a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
		a.want(ntstatus.ObjectNameNotFound, cmdOplockBreak, leaseAck(1, 0))
	}
}

// Acknowledgements that are wrong, doubled, of others or too high change nothing, and a flood of them
// disturbs no other request.
//
// Source: [MS-SMB2 3.3.5.22.1], [MS-SMB2 3.3.5.22.2]
func TestHostileAcknowledgements(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	a, b, c := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311), leaseClient(t, addr, 3, 0x0311)
	id := [16]byte(a.want(ntstatus.Success, cmdCreate, leased(rw("f"), 1, stateRWH).body()).body[64:80])
	a.want(ntstatus.Unsuccessful, cmdOplockBreak, leaseAck(1, stateR)) // before a break
	b.begin(rw("f"))
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	for range 200 {
		c.want(ntstatus.ObjectNameNotFound, cmdOplockBreak, leaseAck(1, stateRH)) // the key of another client
		a.want(ntstatus.RequestNotAccepted, cmdOplockBreak, leaseAck(1, stateRWH))
		a.want(ntstatus.RequestNotAccepted, cmdOplockBreak, leaseAck(1, 0x13))
		a.want(ntstatus.InvalidOplockProtocol, cmdOplockBreak, oplockAck(id, levelII)) // as an oplock
		a.want(ntstatus.FileClosed, cmdOplockBreak, oplockAck([16]byte{1}, 0))
		a.want(ntstatus.InvalidParameter, cmdOplockBreak, leaseAck(1, stateRH)[:30])
	}
	if got := s.cfg.FS.Stats(); got.LeaseBreaks != 1 || got.LeasesRevoked != 0 {
		t.Errorf("%+v", got)
	}
	a.want(ntstatus.Success, cmdOplockBreak, leaseAck(1, stateRH))
	a.want(ntstatus.Unsuccessful, cmdOplockBreak, leaseAck(1, stateRH))
	if r := b.recv()[0]; r.status != ntstatus.Success {
		t.Error(r.status)
	}

	// A level that the break of an oplock does not offer ends the oplock.
	id = [16]byte(a.want(ntstatus.Success, cmdCreate, oplocked(rw("g"), levelBatch).body()).body[64:80])
	for level, want := range map[byte]ntstatus.Status{levelBatch: ntstatus.InvalidOplockProtocol, levelLease: ntstatus.InvalidParameter} {
		b.begin(oplocked(rw("g"), levelII))
		a.notified()
		a.want(want, cmdOplockBreak, oplockAck(id, level))
		r := b.recv()[0]
		if r.status != ntstatus.Success || r.body[2] != levelII {
			t.Errorf("%v, level %x", r.status, r.body[2])
		}
		a.want(ntstatus.InvalidOplockProtocol, cmdOplockBreak, oplockAck(id, 0))
		b.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))
		a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
		id = [16]byte(a.want(ntstatus.Success, cmdCreate, oplocked(rw("g"), levelBatch).body()).body[64:80])
	}
}

// A client that never acknowledges loses its lease, and nothing else.
//
// Source: [MS-SMB2 3.3.6.5]
func TestSilentClientLosesItsLease(t *testing.T) {
	s, addr, _ := impatientServer(t)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	id := [16]byte(a.want(ntstatus.Success, cmdCreate, leased(rw("f"), 1, stateRWH).body()).body[64:80])
	if r := b.call(cmdCreate, rw("f").body()); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	a.want(ntstatus.Unsuccessful, cmdOplockBreak, leaseAck(1, stateRH))
	a.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("data")))
	if got := s.cfg.FS.Stats().LeasesRevoked; got != 1 {
		t.Errorf("%d leases revoked", got)
	}
}

// impatientServer is testServer with a file system that waits for acknowledgements for a moment.
func impatientServer(t *testing.T) (s *Server, addr string, fs *vfs.FS) {
	t.Helper()
	d, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if fs, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: d}}, LeaseTimeout: 1}); err != nil {
		t.Fatal(err)
	}
	s, addr, _ = testServer(t, func(c *Config) { c.FS = fs })
	t.Cleanup(func() {
		s.Close()
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, addr, fs
}

// The end of the holder's connection, and a CANCEL, end a wait.
//
// Source: [MS-SMB2 3.3.5.16], [MS-SMB2 3.3.7.1]
func TestWaitForBreakEnds(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	a.mustCreate(leased(rw("f"), 1, stateRWH))
	b.send(b.message(cmdCreate, rw("f").body()))
	wait := b.recv()[0]
	if wait.status != ntstatus.Pending {
		t.Fatal(wait.status)
	}
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	b.cancel(wait.id, true)
	if r := b.recv()[0]; r.status != ntstatus.Cancelled || r.id != wait.id {
		t.Errorf("%v, message %d", r.status, r.id)
	}
	b.begin(rw("f"))
	a.nc.Close()
	if r := b.recv()[0]; r.status != ntstatus.Success {
		t.Error(r.status)
	}
}

// Requests that wait for an acknowledgement keep no worker from it, and from a CLOSE, on the same connection.
func TestAcknowledgementPassesWaitingOpens(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.MaxWorkers = 2 })
	const files = 20
	a := leaseClient(t, addr, 1, 0x0311)
	var ids [][16]byte
	for i := range byte(files) {
		r := a.want(ntstatus.Success, cmdCreate, leased(rw(string('a'+rune(i))), i+1, stateRWH).body())
		ids = append(ids, [16]byte(r.body[64:80]))
	}
	for i := range byte(files) {
		a.send(a.message(cmdCreate, leased(rw(string('a'+rune(i))), i+100, stateRWH).body()))
	}
	for i := 0; i < 2*files; { // an interim response and a break for each
		for _, r := range a.recv() {
			if r.status != ntstatus.Pending && (r.command != cmdOplockBreak || r.id != ^uint64(0)) {
				t.Fatalf("command %d: %v", r.command, r.status)
			}
			i++
		}
	}
	for i := range byte(files) {
		if i%2 == 0 {
			a.send(a.message(cmdOplockBreak, leaseAck(i+1, stateRH)))
		} else {
			a.send(a.message(cmdClose, closeBody(ids[i], 0)))
		}
	}
	var done []uint16
	for len(done) < 2*files {
		for _, r := range a.recv() {
			if r.status != ntstatus.Success {
				t.Fatalf("command %d: %v", r.command, r.status)
			}
			done = append(done, r.command)
		}
	}
	if n := len(slices.DeleteFunc(done, func(c uint16) bool { return c != cmdCreate })); n != files {
		t.Errorf("%d opens", n)
	}
	if got := s.cfg.FS.Stats().LeasesRevoked; got != 0 {
		t.Errorf("%d leases revoked", got)
	}
}

// A CREATE that waits for several breaks, one after the other, has one interim response.
//
// Source: [MS-SMB2 3.3.4.2]
func TestOpenWaitsForEachStep(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b, c := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311), leaseClient(t, addr, 3, 0x0311)
	a.mustCreate(leased(rw("f"), 1, stateRWH))
	b.begin(rw("f"))
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	overwrite := rw("f")
	overwrite.disposition = 5
	c.begin(overwrite)
	for _, x := range []struct{ ack, next uint32 }{{stateRH, stateR}, {stateR, 0}} {
		a.goesOn(1, x.ack, x.next)
	}
	for _, x := range []*raw{b, c} {
		if r := x.recv()[0]; r.status != ntstatus.Success || r.command != cmdCreate {
			t.Errorf("command %d: %v", r.command, r.status)
		}
	}
}

// A lease keeps the version of its first open: the responses to later ones, and the breaks, have it too.
//
// Source: [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
func TestLeaseKeepsItsVersion(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	for i, order := range [][2][]uint16{{{0x10}, nil}, {nil, {0x10}}} {
		key := byte(i + 1)
		name := rw(string('f' + rune(i)))
		a.mustCreate(leased(name, key, stateR, order[0]...))
		r := a.want(ntstatus.Success, cmdCreate, leased(name, key, stateRWH, order[1]...).body())
		at := le.Uint32(r.body[80:]) - 64
		if n, want := le.Uint32(r.body[at+12:]), 32+20*uint32(len(order[0])); n != want {
			t.Errorf("%d bytes of a lease, want %d", n, want)
		}
		b.begin(name)
		a.wantBreak(key, stateRWH, stateRH, true, map[bool]uint16{true: 0x13}[order[0] != nil])
		a.want(ntstatus.Success, cmdOplockBreak, leaseAck(key, 0))
		if r := b.recv()[0]; r.status != ntstatus.Success {
			t.Error(r.status)
		}
	}
}

// A CREATE within a compound waits too; the compound has one response for each request.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
func TestOpenInCompoundWaitsForBreak(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	a.mustCreate(leased(rw("f"), 1, stateRWH))
	any := [16]byte(bytes.Repeat([]byte{0xFF}, 16))
	b.send(related(b.message(cmdCreate, rw("f").body()), b.message(cmdWrite, writeBody(any, 0, []byte("x"))), b.message(cmdClose, closeBody(any, 0)))...)
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	a.goesOn(1, stateRH, 0) // by the write, which waits for nothing
	for n := 0; n < 3; {
		for _, r := range b.recv() {
			if r.status != ntstatus.Success {
				t.Errorf("command %d: %v", r.command, r.status)
			}
			n++
		}
	}
}

// A rename and a delete of another client wait for a close that a lease delays.
//
// Source: [MS-SMB2 3.3.5.21.1]
func TestNameChangesWaitForBreak(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	for i, change := range []func(id [16]byte) []byte{
		func(id [16]byte) []byte { return setBody(id, 1, 10, renameInfo("g", false)) },
		func(id [16]byte) []byte { return setBody(id, 1, 13, []byte{1}) },
	} {
		key := byte(i + 1)
		held := a.mustCreate(leased(rw("f"), key, stateRH))
		id := b.mustCreate(rw("f"))
		b.send(b.message(cmdSetInfo, change(id)))
		if r := b.recv()[0]; r.status != ntstatus.Pending {
			t.Fatal(r.status)
		}
		a.wantBreak(key, stateRH, stateR, true, 0)
		a.want(ntstatus.Success, cmdClose, closeBody(held, 0)) // the close that was delayed
		if r := b.recv()[0]; r.status != ntstatus.Success {
			t.Error(r.status)
		}
		b.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	}
}

// The lease of an orphan stays until another client contradicts it, which waits for nothing; the reclaim tells its
// client. After a reclaim breaks go to the new connection, also one that began before the loss.
//
// Source: [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.9.12], [MS-SMB2 3.3.7.1]
func TestLeaseOfOrphan(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for i, x := range []struct {
		name  string
		away  bool // another client opens the file while the client is away
		early bool // before it is away
		state uint32
	}{{"f", false, false, stateRWH}, {"g", true, false, 0}, {"h", false, true, 0}} {
		a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
		key := byte(i + 1)
		id := [16]byte(a.want(ntstatus.Success, cmdCreate, kept(rw(x.name), i, key, stateRWH).body()).body[64:80])
		if x.early {
			b.begin(rw(x.name))
			a.wantBreak(key, stateRWH, stateRH, true, 0)
		}
		a.lose(s, 1)
		if x.early {
			if r := b.recv()[0]; r.status != ntstatus.Success {
				t.Fatal(r.status)
			}
		}
		if x.away {
			b.mustCreate(rw(x.name))
		}
		a = a.resume(addr)
		r := a.want(ntstatus.Success, cmdCreate, reclaiming(id, i).body())
		id = [16]byte(r.body[64:80])
		if state, _, _ := leaseIn(t, r.body); state != x.state {
			t.Errorf("%s: state %x after the reclaim, want %x", x.name, state, x.state)
		}
		if x.state != 0 {
			b.begin(rw(x.name))
			a.wantBreak(key, stateRWH, stateRH, true, 0)
			a.want(ntstatus.Success, cmdOplockBreak, leaseAck(key, stateRH))
			if r := b.recv()[0]; r.status != ntstatus.Success {
				t.Error(r.status)
			}
		}
		a.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("data")))
		a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	}
}

// The notification of a client that encrypts is encrypted.
//
// Source: [MS-SMB2 3.3.4.1.4]
func TestBreakIsEncrypted(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	a.mustConnect("data")
	b := leaseClient(t, addr, 2, 0x0311)
	a.mustCreate(leased(rw("f"), 1, stateRWH))
	b.begin(rw("f"))
	a.wantBreak(1, stateRWH, stateRH, true, 0)
	a.want(ntstatus.Success, cmdOplockBreak, leaseAck(1, 0))
	if r := b.recv()[0]; r.status != ntstatus.Success {
		t.Error(r.status)
	}
}

// Dialect 2.0.2 has no leases, and 2.1 has those of version 1. A directory has none, and a context with another
// length is refused.
//
// Source: [MS-SMB2 3.3.5.9], [MS-SMB2 3.3.5.4]
func TestRequestsWithoutALease(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for dialect, want := range map[uint16][2]bool{0x0202: {false, false}, 0x0210: {true, false}, 0x0300: {true, true}} {
		c := leaseClient(t, addr, 1, dialect)
		for i, o := range []create{leased(rw("f"), 1, stateR), leased(rw("f"), 1, stateR, 1)} {
			r := c.want(ntstatus.Success, cmdCreate, o.body())
			if got := r.body[2] == levelLease; got != want[i] {
				t.Errorf("%x, version %d: %t", dialect, i+1, got)
			}
			c.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))
		}
	}
	c := leaseClient(t, addr, 1, 0x0311)
	dir := create{name: "d", access: 0x81, share: 7, disposition: 3, options: 1}
	if r := c.want(ntstatus.Success, cmdCreate, leased(dir, 1, stateRH, 1).body()); r.body[2] != 0 {
		t.Errorf("directory: level %x", r.body[2])
	}
	bad := rw("f")
	bad.oplock, bad.contexts = levelLease, contextList(namedContext{"RqLs", make([]byte, 40)})
	c.want(ntstatus.InvalidParameter, cmdCreate, bad.body())
}
