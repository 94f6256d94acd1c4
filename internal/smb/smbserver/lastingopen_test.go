package smbserver

import (
	"slices"
	"testing"

	"lwio/internal/ntstatus"
)

const (
	stateRW        = 5
	levelExclusive = 0x08
)

// also adds contexts to those of an open.
func (o create) also(list ...namedContext) create {
	var all []namedContext
	for b := o.contexts; len(b) > 0; b = b[le.Uint32(b):] {
		all = append(all, namedContext{string(b[le.Uint16(b[4:]):][:4]), b[le.Uint16(b[10:]):][:le.Uint32(b[12:])]})
		if le.Uint32(b) == 0 {
			break
		}
	}
	o.contexts = contextList(append(all, list...)...)
	return o
}

// durableV1 is the context DHnQ, and reconnectV1 the context DHnC.
func durableV1() namedContext              { return namedContext{"DHnQ", make([]byte, 16)} }
func reconnectV1(id [16]byte) namedContext { return namedContext{"DHnC", slices.Clone(id[:])} }

// contextIn returns the data of a context in a response to CREATE, or nil.
func contextIn(body []byte, name string) []byte {
	at, n := le.Uint32(body[80:]), le.Uint32(body[84:])
	if n == 0 {
		return nil
	}
	for b := body[at-64:]; ; b = b[le.Uint32(b):] {
		if string(b[le.Uint16(b[4:]):][:4]) == name {
			return b[le.Uint16(b[10:]):][:le.Uint32(b[12:])]
		}
		if le.Uint32(b) == 0 {
			return nil
		}
	}
}

// mustLast makes an open, which has to be durable.
func (c *raw) mustLast(o create) [16]byte {
	c.t.Helper()
	r := c.want(ntstatus.Success, cmdCreate, o.body())
	if contextIn(r.body, "DHnQ") == nil && contextIn(r.body, "DH2Q") == nil {
		c.t.Fatal("the open is not durable")
	}
	return [16]byte(r.body[64:80])
}

// An open with a batch oplock or a lease with LeaseHandle is durable, by version 2 of the request in dialects 3.x only.
// Any other open ends with the connection.
//
// Source: [MS-SMB2 3.3.5.9.6], [MS-SMB2 3.3.5.9.10], [MS-SMB2 3.3.7.1]
func TestDurableHandleNeedsHandleCaching(t *testing.T) {
	for name, x := range map[string]struct {
		open    create
		dialect uint16
		off     bool
		v1, v2  bool // granted
	}{
		"batch":          {open: oplocked(rw("f"), levelBatch), dialect: 0x0311, v1: true, v2: true},
		"exclusive":      {open: oplocked(rw("f"), levelExclusive), dialect: 0x0311},
		"level II":       {open: oplocked(rw("f"), levelII), dialect: 0x0311},
		"no oplock":      {open: rw("f"), dialect: 0x0311},
		"lease RWH":      {open: leased(rw("f"), 1, stateRWH), dialect: 0x0311, v1: true, v2: true},
		"lease RH":       {open: leased(rw("f"), 1, stateRH, 1), dialect: 0x0300, v1: true, v2: true},
		"lease RW":       {open: leased(rw("f"), 1, stateRW), dialect: 0x0311},
		"lease R":        {open: leased(rw("f"), 1, stateR), dialect: 0x0311},
		"batch, 2.0.2":   {open: oplocked(rw("f"), levelBatch), dialect: 0x0202, v1: true},
		"lease RWH, 2.1": {open: leased(rw("f"), 1, stateRWH), dialect: 0x0210, v1: true},
		"batch, off":     {open: oplocked(rw("f"), levelBatch), dialect: 0x0311, off: true},
		"directory":      {open: oplocked(create{access: 1, share: 7, disposition: 1, options: 1}, levelBatch), dialect: 0x0311},
	} {
		for version, want := range map[string]bool{"DHnQ": x.v1, "DH2Q": x.v2} {
			t.Run(name+" "+version, func(t *testing.T) {
				s, addr, _ := testServer(t, func(c *Config) {
					if x.off {
						c.Durable.Timeout = -1
					}
				})
				c := leaseClient(t, addr, 1, x.dialect)
				ask, answer := durableV1(), uint64(0)
				if version == "DH2Q" {
					ask, answer = durableRequest(1, 1234, 0), 1234
				}
				got := contextIn(c.want(ntstatus.Success, cmdCreate, x.open.also(ask).body()).body, version)
				if (got != nil) != want || want && le.Uint64(got) != answer {
					t.Fatalf("context %x, want one: %t", got, want)
				}
				ss := s.session(c.session)
				c.nc.Close()
				<-ss.gone
				orphans := map[bool]int{true: 1}[want]
				if st, files := s.Stats(), s.cfg.FS.Stats(); st.Orphans != orphans || files.Opens != orphans {
					t.Errorf("%d orphans, %d opens, want %d", st.Orphans, files.Opens, orphans)
				}
			})
		}
	}
}

// A durable open keeps its oplock and its locks, and the position that its client has set. Each client of the user
// reclaims it, and the rest of the request does not matter; an open of version 2 also by version 1. The answer grants
// nothing anew.
//
// Source: [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.12]
func TestDurableHandleIsReclaimed(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	n := 0
	for _, v2 := range []bool{false, true} {
		for _, client := range []byte{1, 9} {
			for _, old := range []bool{true, false} {
				if !v2 && !old {
					continue
				}
				n++
				ask := durableV1()
				if v2 {
					ask = durableRequest(n, 0, 0)
				}
				c := leaseClient(t, addr, 1, 0x0311)
				id := c.mustLast(oplocked(exclusive("f"), levelBatch).also(ask))
				c.want(ntstatus.Success, cmdLock, lockBody(id, element{0, 1, lockExclusive | lockNow}))
				s.session(c.session).handles.open(le.Uint64(id[8:])).position.Store(77)
				c.lose(s, 1)

				c = leaseClient(t, addr, client, 0x0311)
				by := []namedContext{reconnectV1(id), durableV1()}
				if !old {
					by = []namedContext{durableReconnect(id, n)}
				}
				again := create{name: "any", access: 0x12345678, options: 1 << 30}.also(by...)
				r := c.want(ntstatus.Success, cmdCreate, again.body())
				if r.body[2] != levelBatch || contextIn(r.body, "DHnQ") != nil || contextIn(r.body, "DH2Q") != nil {
					t.Errorf("level %x, contexts %x", r.body[2], r.body[80:])
				}
				got := [16]byte(r.body[64:80])
				if at := s.session(c.session).handles.open(le.Uint64(got[8:])).position.Load(); at != 77 {
					t.Errorf("position %d", at)
				}
				c.want(ntstatus.Success, cmdLock, lockBody(got, element{0, 1, lockUnlock}))
				c.want(ntstatus.Success, cmdClose, closeBody(got, 0))
			}
		}
	}
}

// A reclaim that names another open, GUID, client, user, lease or file is refused, and the orphan stays.
//
// Source: [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.12]
func TestReclaimsOfDurableHandlesAreChecked(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := leaseClient(t, addr, 1, 0x0311)
	id := c.mustLast(leased(rw("f"), 1, stateRWH, 1).also(durableRequest(1, 0, 0)))
	plain := c.mustLast(oplocked(rw("g"), levelBatch).also(durableRequest(2, 0, 0)))
	lasting := c.mustCreate(persistent(rw("h"), 3, 0))
	c.lose(s, 3)
	c, other := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	bob := dial(t, addr)
	bob.guid = 1
	bob.mustNegotiate(0x0311)
	bob.mustSetup("bob", testPassword)
	bob.mustConnect("data")

	right := leased(rw("f"), 1, 0, 9).also(durableReconnect(id, 1))
	for name, x := range map[string]struct {
		by   *raw
		open create
		want ntstatus.Status
	}{
		"other client":       {other, right, ntstatus.ObjectNameNotFound},
		"other user":         {bob, right, ntstatus.AccessDenied},
		"other GUID":         {c, leased(rw("f"), 1, 0, 9).also(durableReconnect(id, 2)), ntstatus.ObjectNameNotFound},
		"no lease":           {c, rw("f").also(durableReconnect(id, 1)), ntstatus.ObjectNameNotFound},
		"other key":          {c, leased(rw("f"), 2, 0, 9).also(durableReconnect(id, 1)), ntstatus.ObjectNameNotFound},
		"other version":      {c, leased(rw("f"), 1, 0).also(durableReconnect(id, 1)), ntstatus.ObjectNameNotFound},
		"other file":         {c, leased(rw("g"), 1, 0, 9).also(durableReconnect(id, 1)), ntstatus.InvalidParameter},
		"no such file":       {c, leased(rw("x/y"), 1, 0, 9).also(durableReconnect(id, 1)), ntstatus.InvalidParameter},
		"lease of an oplock": {c, leased(rw("g"), 1, 0, 9).also(durableReconnect(plain, 2)), ntstatus.ObjectNameNotFound},
		"persistent by v1":   {c, rw("h").also(reconnectV1(lasting)), ntstatus.ObjectNameNotFound},
		"both versions":      {c, right.also(reconnectV1(id)), ntstatus.InvalidParameter},
		"request of v1 too":  {c, right.also(durableV1()), ntstatus.InvalidParameter},
		"short v1":           {c, rw("f").also(namedContext{"DHnC", id[:15]}), ntstatus.InvalidParameter},
		"unknown open":       {c, rw("f").also(reconnectV1([16]byte{1})), ntstatus.ObjectNameNotFound},
		"dialect 2.1, by v2": {leaseClient(t, addr, 1, 0x0210), right, ntstatus.ObjectNameNotFound},
	} {
		if got := x.by.call(cmdCreate, x.open.body()).status; got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
	r := c.want(ntstatus.Success, cmdCreate, right.body())
	if data := contextIn(r.body, "RqLs"); le.Uint32(data[16:]) != stateRWH || le.Uint16(data[48:]) != 2 {
		t.Errorf("lease %x", data)
	}
	wantOrphans(t, s, 2)
	c.want(ntstatus.ObjectNameNotFound, cmdCreate, right.body()) // a session has it
}

// An orphan makes way for a request that breaks its handle caching, at once and without FILE_NOT_AVAILABLE, and stays for the
// rest.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7], [MS-FSA 2.1.4.12]
func TestOrphanMakesWay(t *testing.T) {
	stat := create{name: "f", access: 0x80, share: 7, disposition: 1}
	for name, x := range map[string]struct {
		orphan, other create
		writes        bool
		stays         bool
	}{
		"batch, open":               {orphan: oplocked(rw("f"), levelBatch), other: rw("f")},
		"batch, share mode":         {orphan: oplocked(exclusive("f"), levelBatch), other: rw("f")},
		"batch, attributes":         {orphan: oplocked(rw("f"), levelBatch), other: stat, stays: true},
		"RWH, open":                 {orphan: leased(rw("f"), 1, stateRWH), other: rw("f")},
		"RWH, attributes":           {orphan: leased(rw("f"), 1, stateRWH), other: stat, stays: true},
		"RH, open":                  {orphan: leased(rw("f"), 1, stateRH), other: rw("f"), stays: true},
		"RH, open with a lease":     {orphan: leased(rw("f"), 1, stateRH), other: leased(rw("f"), 2, stateRWH), stays: true},
		"RH, share mode":            {orphan: leased(exclusive("f"), 1, stateRH), other: rw("f")},
		"RH, open that shares none": {orphan: leased(rw("f"), 1, stateRH), other: exclusive("f")},
		"RH, write":                 {orphan: leased(rw("f"), 1, stateRH), other: rw("f"), writes: true},
		"RH, open that empties":     {orphan: leased(rw("f"), 1, stateRH), other: create{name: "f", access: 3, share: 7, disposition: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, _ := testServer(t, nil)
			a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
			a.mustLast(x.orphan.also(durableRequest(1, 0, 0)))
			a.lose(s, 1)
			id := b.mustCreate(x.other)
			if x.writes {
				b.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("theirs")))
			}
			if !x.stays {
				wantOrphans(t, s, 0)
			}
			if st := s.Stats(); st.Surrendered != uint64(1-st.Orphans) || (st.Orphans == 1) != x.stays {
				t.Errorf("%d orphans, %d closed", st.Orphans, st.Surrendered)
			}
		})
	}
}

// A rename and a delete by another client close an orphan too, and so does an open over the file layer, as LWIO's
// clients have.
//
// Source: [MS-FSA 2.1.5.15.11], [MS-FSA 2.1.5.15.4]
func TestOrphanMakesWayForNames(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for n, change := range []func(c *raw, id [16]byte){
		func(c *raw, id [16]byte) {
			c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 10, renameInfo("g", true)))
		},
		func(c *raw, id [16]byte) { c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 13, []byte{1})) },
	} {
		a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
		id := a.mustLast(leased(rw("f"), 1, stateRH).also(durableRequest(n, 0, 0)))
		theirs := b.mustCreate(rw("f"))
		a.lose(s, 1)
		change(b, theirs)
		wantOrphans(t, s, 0)
		again := leaseClient(t, addr, 1, 0x0311)
		again.want(ntstatus.ObjectNameNotFound, cmdCreate, leased(rw("f"), 1, 0).also(durableReconnect(id, n)).body())
		b.want(ntstatus.Success, cmdClose, closeBody(theirs, 0))
	}
}

// A lease that is being broken when the connection is lost ends, and the open that waits goes on.
//
// Source: [MS-SMB2 3.3.7.1]
func TestLossDuringBreakClosesDurableHandle(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	a, b := leaseClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	a.mustLast(leased(exclusive("f"), 1, stateRWH).also(durableRequest(1, 0, 0)))
	b.begin(rw("f"))
	a.notified()
	a.nc.Close()
	if r := b.recv()[0]; r.status != ntstatus.Success {
		t.Error(r.status)
	}
	if st := s.Stats(); st.Orphans != 0 {
		t.Errorf("%d orphans", st.Orphans)
	}
}

// The durable handles of a lost client are bounded as persistent ones are, and those that make way leave room.
//
// Source: [OP-56]
func TestDurableHandlesOfHostileClientAreBounded(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Durable.MaxOrphans = 40 })
	a := leaseClient(t, addr, 1, 0x0311)
	for i := range 100 {
		a.mustLast(leased(rw("f"), 1, stateRH).also(durableRequest(i, 0, 0)))
	}
	a.lose(s, 30)
	b := leaseClient(t, addr, 2, 0x0311)
	id := b.mustCreate(rw("f"))
	b.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("x")))
	wantOrphans(t, s, 0)
	if st := s.Stats(); st.Surrendered != 30 || st.OrphansRefused != 70 {
		t.Errorf("%+v", st)
	}
	b.want(ntstatus.Success, cmdClose, closeBody(id, 0))
}

// A repeated CREATE has the open of the first one, durable or not. Asked for less, the answer says less; asked
// for a lease in place of an oplock, it is refused.
//
// Source: [MS-SMB2 3.3.5.9.10]
func TestReplayedCreateOfOtherOpens(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := leaseClient(t, addr, 1, 0x0311)
	again := func(o create) reply {
		c.send(replay(c.message(cmdCreate, o.body())))
		return c.recv()[0]
	}
	first := rw("plain").also(durableRequest(1, 0, 0))
	id := c.mustCreate(first)
	if r := again(first); r.status != ntstatus.Success || [16]byte(r.body[64:80]) != id || contextIn(r.body, "DH2Q") != nil {
		t.Errorf("%v, %x", r.status, r.body)
	}
	ask := durableRequest(2, 0, 0)
	id = c.mustLast(oplocked(rw("batch"), levelBatch).also(ask))
	for level, durable := range map[byte]bool{levelBatch: true, levelII: false, 0: false} {
		r := again(oplocked(rw("batch"), level).also(ask))
		if r.status != ntstatus.Success || [16]byte(r.body[64:80]) != id || r.body[2] != level || (contextIn(r.body, "DH2Q") != nil) != durable {
			t.Errorf("level %x: %v, level %x", level, r.status, r.body[2])
		}
	}
	if r := again(leased(rw("batch"), 1, stateRWH).also(ask)); r.status != ntstatus.AccessDenied {
		t.Error(r.status)
	}
}

// A session of a client with another ClientGuid that names the last one replaces it: its persistent handles are
// closed, and other durable opens stay for their clients.
//
// Source: [MS-SMB2 3.3.5.5.3]
func TestReplacedSessionKeepsDurableHandles(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := leaseClient(t, addr, 1, 0x0311)
	id := c.mustLast(leased(rw("f"), 1, stateRWH).also(durableRequest(1, 0, 0)))
	c.mustCreate(persistent(exclusive("g"), 2, 0))
	other := dial(t, addr)
	other.guid = 2
	other.mustNegotiate(0x0311)
	if r := other.setup(testUser, testPassword, c.session); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	other.mustConnect("data")
	wantOrphans(t, s, 1)
	other.mustCreate(exclusive("g"))
	reclaim := leased(rw("f"), 1, 0).also(durableReconnect(id, 1)).body()
	other.want(ntstatus.ObjectNameNotFound, cmdCreate, reclaim)
	leaseClient(t, addr, 1, 0x0311).want(ntstatus.Success, cmdCreate, reclaim)
}
