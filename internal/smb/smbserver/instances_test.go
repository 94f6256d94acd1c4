package smbserver

import (
	"testing"

	"lwio/internal/ntstatus"
)

// appInstance is the context of an instance of an application.
func appInstance(app int) namedContext {
	b := le.AppendUint16(nil, 20)
	b = le.AppendUint16(b, 0)
	return namedContext{"\x45\xBC\xA6\x6A\xEF\xA7\xF7\x4A\x90\x08\xFA\x46\x2E\x14\x4D\x74", append(b, guidBytes(app)...)}
}

// ofApp asks for a persistent handle of an instance of an application.
func ofApp(o create, guid, app int) create {
	o.contexts = contextList(durableRequest(guid, 0, 2), appInstance(app))
	return o
}

// mountAs logs a user on as the client with a GUID, and connects to the share data.
func mountAs(t testing.TB, addr, user string, guid byte) *raw {
	t.Helper()
	c := dial(t, addr)
	c.guid = guid
	c.mustNegotiate(0x0311)
	c.mustSetup(user, testPassword)
	c.mustConnect("data")
	return c
}

// A client that starts anew as the same instance of an application has the files of its orphans at once,
// and any other client has not.
//
// Source: [MS-SMB2 3.3.5.9.13]
func TestInstanceClosesOrphansOfEarlierClient(t *testing.T) {
	all := element{0, 100, lockExclusive | lockNow}
	for name, x := range map[string]struct {
		user string
		guid byte // of the second client
		o    create
		want ntstatus.Status
	}{
		"the same instance":            {testUser, 2, ofApp(exclusive("f"), 1, 7), ntstatus.Success},
		"the same, no durable open":    {testUser, 2, create{name: "f", access: 3, disposition: 1, contexts: contextList(appInstance(7))}, ntstatus.Success},
		"no instance":                  {testUser, 2, persistent(exclusive("f"), 1, 0), ntstatus.FileNotAvailable},
		"instance 0":                   {testUser, 2, ofApp(exclusive("f"), 1, 0), ntstatus.FileNotAvailable},
		"another instance":             {testUser, 2, ofApp(exclusive("f"), 1, 8), ntstatus.FileNotAvailable},
		"another user":                 {"bob", 2, ofApp(exclusive("f"), 1, 7), ntstatus.FileNotAvailable},
		"another session of the first": {testUser, 1, ofApp(exclusive("f"), 2, 7), ntstatus.FileNotAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, _ := testServer(t, nil)
			first := mountAs(t, addr, testUser, 1)
			first.mustCreate(ofApp(exclusive("other"), 3, 7))
			lost := first.mustCreate(ofApp(exclusive("f"), 1, 7))
			first.want(ntstatus.Success, cmdLock, lockBody(lost, all))
			first.lose(s, 2)
			second := mountAs(t, addr, x.user, x.guid)
			r := second.call(cmdCreate, x.o.body())
			if r.status != x.want {
				t.Fatalf("%v, want %v", r.status, x.want)
			}
			if r.status != ntstatus.Success {
				wantOrphans(t, s, 2)
				return
			}
			second.want(ntstatus.Success, cmdLock, lockBody([16]byte(r.body[64:80]), all))
			wantOrphans(t, s, 1) // of the other file
			first.resume(addr).want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(lost, 1).body())
		})
	}
}

// An instance also takes a file from a client that is still connected, and from one of before a restart of
// the server.
//
// Source: [MS-SMB2 3.3.5.9.13]
func TestInstanceClosesLiveAndRestoredOpens(t *testing.T) {
	r, _, addr := newRestarts(t)
	first := mountAs(t, addr, testUser, 1)
	old := first.mustCreate(ofApp(exclusive("f"), 1, 7))
	second := mountAs(t, addr, testUser, 2)
	second.mustCreate(ofApp(exclusive("f"), 1, 7))
	first.want(ntstatus.FileClosed, cmdWrite, writeBody(old, 0, []byte("late")))
	r.wantState(1, 1)

	s, addr := r.restart()
	wantOrphans(t, s, 1)
	third := mountAs(t, addr, testUser, 3)
	third.want(ntstatus.FileNotAvailable, cmdCreate, ofApp(exclusive("f"), 1, 8).body())
	third.mustCreate(ofApp(exclusive("f"), 1, 7))
	wantOrphans(t, s, 0)
	r.wantState(1, 1)
}

// A context that is too short, of another size, or there twice is refused, and closes nothing.
//
// Source: [MS-SMB2 2.2.13.2.13]
func TestInvalidInstanceIsRefused(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	first := mountAs(t, addr, testUser, 1)
	first.mustCreate(ofApp(exclusive("f"), 1, 7))
	first.lose(s, 1)
	good := appInstance(7)
	sized := namedContext{good.name, append([]byte{24, 0}, good.data[2:]...)}
	for name, list := range map[string][]namedContext{
		"short":            {{good.name, good.data[:19]}},
		"empty":            {{good.name, nil}},
		"of another size":  {sized},
		"twice":            {good, good},
		"a short second":   {good, {good.name, good.data[:4]}},
		"of no dialect":    nil,
		"with a durable 1": {good, durableRequest(1, 0, 2), {"DHnC", make([]byte, 16)}},
	} {
		t.Run(name, func(t *testing.T) {
			o, c, want := exclusive("f"), mountAs(t, addr, testUser, 2), ntstatus.InvalidParameter
			if o.contexts = contextList(list...); list == nil {
				o.contexts, want = contextList(good), ntstatus.FileNotAvailable
				c = login(t, addr, 0x0210)
				c.mustConnect("data")
			}
			c.want(want, cmdCreate, o.body())
			wantOrphans(t, s, 1)
		})
	}
}
