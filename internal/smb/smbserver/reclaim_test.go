package smbserver

import (
	"testing"

	"lwio/internal/ntstatus"
)

// Only the client that made an open takes it over, once it has lost the connection.
//
// Source: [MS-SMB2 3.3.5.9.12]
func TestReclaimIsRefused(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	lost := c.mustCreate(persistent(exclusive("f"), 1, 0))
	c.lose(s, 1)
	holder := mount(t, addr, "data")
	live := holder.mustCreate(persistent(exclusive("live"), 2, 0))
	mine := func(o create) func(*testing.T) reply {
		return func(t *testing.T) reply { return mount(t, addr, "data").call(cmdCreate, o.body()) }
	}
	unknown := lost
	unknown[0] ^= 0x80
	old := reclaiming(lost, 1)
	old.contexts = contextList(durableReconnect(lost, 1), namedContext{"DHnC", make([]byte, 16)})
	asks := reclaiming(lost, 1)
	asks.contexts = contextList(namedContext{"DHnQ", make([]byte, 16)}, durableReconnect(lost, 1))
	fresh := exclusive("fresh")
	fresh.contexts = contextList(durableRequest(3, 0, 2), namedContext{"DHnQ", make([]byte, 16)})
	both := reclaiming(lost, 1)
	both.contexts = contextList(durableReconnect(lost, 1), durableRequest(1, 0, 2))
	short := reclaiming(lost, 1)
	short.contexts = contextList(namedContext{"DH2C", make([]byte, 35)})
	for name, x := range map[string]struct {
		do   func(t *testing.T) reply
		want ntstatus.Status
	}{
		"another GUID of the open": {mine(reclaiming(lost, 2)), ntstatus.ObjectNameNotFound},
		"unknown FileId":           {mine(reclaiming(unknown, 1)), ntstatus.ObjectNameNotFound},
		"in use":                   {mine(reclaiming(live, 2)), ntstatus.ObjectNameNotFound},
		"two kinds of contexts":    {mine(old), ntstatus.InvalidParameter},
		"a request of version 1":   {mine(asks), ntstatus.InvalidParameter},
		"requests of two versions": {mine(fresh), ntstatus.InvalidParameter},
		"request and reconnect":    {mine(both), ntstatus.InvalidParameter},
		"short context":            {mine(short), ntstatus.InvalidParameter},
		"durable of version 1": {
			mine(create{access: 3, contexts: contextList(namedContext{"DHnC", make([]byte, 16)})}), ntstatus.ObjectNameNotFound,
		},
		"another share": {func(t *testing.T) reply {
			return mount(t, addr, "ro").call(cmdCreate, reclaiming(lost, 1).body())
		}, ntstatus.ObjectNameNotFound},
		"another client": {func(t *testing.T) reply {
			c := dial(t, addr)
			c.guid = 9
			c.mustNegotiate(0x0311)
			c.mustSetup(testUser, testPassword)
			c.mustConnect("data")
			return c.call(cmdCreate, reclaiming(lost, 1).body())
		}, ntstatus.ObjectNameNotFound},
		"another user": {func(t *testing.T) reply {
			return as(t, addr, "bob").call(cmdCreate, reclaiming(lost, 1).body())
		}, ntstatus.AccessDenied},
		"old dialect": {func(t *testing.T) reply {
			c := login(t, addr, 0x0210)
			c.mustConnect("data")
			return c.call(cmdCreate, reclaiming(lost, 1).body())
		}, ntstatus.ObjectNameNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if r := x.do(t); r.status != x.want {
				t.Errorf("%v, want %v", r.status, x.want)
			}
		})
	}
	if n := s.Stats().Orphans; n != 1 {
		t.Errorf("%d orphans", n)
	}
	mount(t, addr, "data").mustReclaim(lost, 1) // also without the id of the previous session
}

// A session that names the previous one has its lineage, but not if the client is another one: then it
// replaces the previous session, as without persistent handles.
//
// Source: [MS-SMB2 3.3.5.5.3], [OP-42]
func TestPreviousSessionOfAnotherClientIsReplaced(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, lost := range []bool{false, true} {
		c := mount(t, addr, "data")
		id := c.mustCreate(persistent(exclusive("f"), 1, 0))
		lineage := s.session(c.session).Lineage()
		if lost {
			c.lose(s, 1)
		}
		other := dial(t, addr)
		other.guid = 9
		other.mustNegotiate(0x0311)
		if r := other.setup(testUser, testPassword, c.session); r.status != ntstatus.Success {
			t.Fatal(r.status)
		}
		<-lineage.Done()
		other.mustConnect("data")
		other.want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(id, 1).body())
		other.want(ntstatus.Success, cmdClose, closeBody(other.mustCreate(exclusive("f")), 0))
		wantOrphans(t, s, 0)
	}
}

// A client that has not seen the response to its session set-up names the session before.
//
// Source: [MS-SMB2 3.3.5.5.3], [OP-42]
func TestUnseenSessionIsContinued(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	first := mount(t, addr, "data")
	id := first.mustCreate(persistent(exclusive("f"), 1, 0))
	first.lose(s, 1)
	var c *raw
	for range 3 {
		c = dial(t, addr)
		c.mustNegotiate(0x0311)
		if r := c.setup(testUser, testPassword, first.session); r.status != ntstatus.Success {
			t.Fatal(r.status)
		}
		if c.session == first.session || s.Stats().Orphans != 1 {
			t.Fatal("the orphan is gone")
		}
	}
	c.mustConnect("data") // the client knows this session
	second := dial(t, addr)
	second.mustNegotiate(0x0311)
	if r := second.setup(testUser, testPassword, first.session); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	if s.session(second.session).Lineage() == s.session(c.session).Lineage() {
		t.Error("the id of a session before the last one is a name of the lineage")
	}
	c.mustReclaim(id, 1)
}
