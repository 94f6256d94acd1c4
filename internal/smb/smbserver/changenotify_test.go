package smbserver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/vfs"
)

// Filters of changes, as the raw client writes them.
const (
	changedNames = 3
	changedAll   = 0xFFF
)

func notifyBody(id [16]byte, flags uint16, n, filter uint32) []byte {
	b := le.AppendUint16(nil, 32)
	b = le.AppendUint16(b, flags)
	b = le.AppendUint32(b, n)
	b = append(b, id[:]...)
	b = le.AppendUint32(b, filter)
	return le.AppendUint32(b, 0)
}

// listable is a directory to watch.
func listable(name string) create {
	return create{name: name, access: 1, share: 7, disposition: 1, options: 1}
}

// folder makes a directory.
func (c *raw) folder(name string) {
	c.t.Helper()
	id := c.mustCreate(create{name: name, access: 1, share: 7, disposition: 2, options: 1})
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
}

// unlink deletes a file or an empty directory.
func (c *raw) unlink(name string) {
	c.t.Helper()
	id := c.mustCreate(create{name: name, access: 0x10000, share: 7, disposition: 1, options: 0x1000})
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
}

// pendNotify sends a CHANGE_NOTIFY that has to wait, and returns the id of the message after the
// interim response.
func (c *raw) pendNotify(body []byte) (message uint64) {
	c.t.Helper()
	c.send(c.message(cmdChangeNotify, body))
	r := c.recv()[0]
	if r.status != ntstatus.Pending || r.flags&2 == 0 || r.credits == 0 || r.command != cmdChangeNotify {
		c.t.Fatalf("command %d: %v, flags %x, %d credits", r.command, r.status, r.flags, r.credits)
	}
	return r.id
}

// final checks a final response to CHANGE_NOTIFY that had to wait, and returns its changes.
func (c *raw) final(r reply, message uint64, want ntstatus.Status) []byte {
	c.t.Helper()
	if r.command != cmdChangeNotify || r.status != want || r.id != message || r.flags&2 == 0 || r.credits != 0 {
		c.t.Fatalf("response to command %d: %v, want %v; message %d, want %d; flags %x, %d credits",
			r.command, r.status, want, r.id, message, r.flags, r.credits)
	}
	return changesOf(c.t, r)
}

// changesOf returns the changes in a response.
func changesOf(t testing.TB, r reply) []byte {
	t.Helper()
	if r.status.Failed() {
		return nil
	}
	if len(r.body) < 8 || le.Uint16(r.body) != 9 || le.Uint16(r.body[2:]) != 72 || int(le.Uint32(r.body[4:])) != len(r.body)-8 {
		t.Fatalf("body %x", r.body)
	}
	return r.body[8:]
}

// change is one change as the protocol has it, with the offset of the next one.
func change(next, action uint32, name string) []byte {
	b := le.AppendUint32(nil, next)
	b = le.AppendUint32(b, action)
	b = le.AppendUint32(b, uint32(2*len(name)))
	b = append(b, utf16le(name)...)
	for next != 0 && len(b) < int(next) {
		b = append(b, 0)
	}
	return b
}

// The responses to CHANGE_NOTIFY, byte by byte: changes of another client end the request that waits
// the longest; changes without a request are kept for the next one.
//
// Source: [MS-SMB2 3.3.5.19] [MS-SMB2 2.2.36] [MS-FSCC 2.7]
func TestChangeNotifyReportsChangesOfOthers(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	b.folder("d")
	top := a.mustCreate(listable(""))
	body := notifyBody(top, 1, 1000, changedNames)
	first := a.pendNotify(body)
	second := a.pendNotify(body)
	b.folder(`d\ab`)
	if got := a.final(a.recv()[0], first, ntstatus.Success); !bytes.Equal(got, change(0, 1, `d\ab`)) {
		t.Errorf("%x", got)
	}
	f := b.mustCreate(create{name: "f", access: 0x10003, share: 7, disposition: 2})
	if got := a.final(a.recv()[0], second, ntstatus.Success); !bytes.Equal(got, change(0, 1, "f")) {
		t.Errorf("%x", got)
	}
	b.want(ntstatus.Success, cmdWrite, writeBody(f, 0, []byte("not selected")))
	b.want(ntstatus.Success, cmdSetInfo, setBody(f, 1, 10, renameInfo("g", false)))
	b.unlink(`d\ab`)
	r := a.want(ntstatus.Success, cmdChangeNotify, body)
	want := slices.Concat(change(16, 4, "f"), change(16, 5, "g"), change(0, 2, `d\ab`))
	if got := changesOf(t, r); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// A change without room in the request that asks, or in the buffer that the first request has set,
// tells the client to enumerate the directory. The next change is reported again.
//
// Source: [MS-SMB2 3.3.5.19]
func TestLostChangesAskForEnumeration(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c, other := mount(t, addr, "data"), mount(t, addr, "data")
	lost := func(id [16]byte, n uint32) {
		t.Helper()
		if got := changesOf(t, c.want(ntstatus.NotifyEnumDir, cmdChangeNotify, notifyBody(id, 0, n, changedNames))); len(got) != 0 {
			t.Errorf("%x", got)
		}
	}
	for n, first := range []uint32{0, 1, 13, 14, 1000, 1 << 16} {
		id := c.mustCreate(listable(""))
		message := c.pendNotify(notifyBody(id, 0, first, changedNames))
		other.folder(fmt.Sprint(n))
		if r := c.recv()[0]; first < 14 {
			c.final(r, message, ntstatus.NotifyEnumDir)
		} else if got := c.final(r, message, ntstatus.Success); !bytes.Equal(got, change(0, 1, fmt.Sprint(n))) {
			t.Errorf("%x", got)
		}
		for i := range 100 {
			other.folder(fmt.Sprintf("%d.%04d", n, i))
		}
		if first < 1<<16 { // each change takes 24 bytes
			lost(id, 1000)
		} else {
			lost(id, 2399)
			other.folder(fmt.Sprint(n, "more"))
			c.want(ntstatus.Success, cmdChangeNotify, notifyBody(id, 0, 1000, changedNames))
		}
		c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	}
}

// Repeated changes of one file are kept once.
func TestRepeatedChangeIsKeptOnce(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	f := c.mustCreate(rw("f"))
	top := c.mustCreate(listable(""))
	c.cancel(c.pendNotify(notifyBody(top, 0, 100, changedAll)), true)
	c.recv()
	for range 100 {
		c.want(ntstatus.Success, cmdSetInfo, setBody(f, 1, 20, []byte{9, 0, 0, 0, 0, 0, 0, 0}))
	}
	r := c.want(ntstatus.Success, cmdChangeNotify, notifyBody(top, 0, 100, changedAll))
	if got := changesOf(t, r); !bytes.Equal(got, change(0, 3, "f")) {
		t.Errorf("%x", got)
	}
}

// A CHANGE_NOTIFY that waits ends with CANCEL, with its open, tree connect and session, with the
// delete of the directory, and with a shutdown. Nothing is held after that.
//
// Source: [MS-SMB2 3.3.5.19] [MS-SMB2 3.3.5.10] [MS-SMB2 3.3.5.16] [MS-SMB2 3.3.4.2]
func TestWaitingChangeNotifyEnds(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted %t", encrypt), func(t *testing.T) { testWaitingChangeNotifyEnds(t, encrypt) })
	}
}

func testWaitingChangeNotifyEnds(t *testing.T, encrypt bool) {
	s, addr, _ := testServer(t, nil)
	connect := func() *raw {
		if !encrypt {
			return mount(t, addr, "data")
		}
		c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
		c.mustConnect("data")
		return c
	}
	c, other := connect(), connect()
	// either takes two responses in any order.
	either := func(command uint16, message uint64, want ntstatus.Status) {
		t.Helper()
		for range 2 {
			if r := c.recv()[0]; r.command == cmdChangeNotify {
				c.final(r, message, want)
			} else if r.command != command || r.status != ntstatus.Success {
				t.Fatalf("command %d: %v", r.command, r.status)
			}
		}
	}
	body := func(id [16]byte) []byte { return notifyBody(id, 1, 4096, changedAll) }
	id := c.mustCreate(listable(""))
	for _, async := range []bool{false, true} {
		message := c.pendNotify(body(id))
		c.cancel(message, async)
		c.final(c.recv()[0], message, ntstatus.Cancelled)
	}
	message := c.pendNotify(body(id))
	c.send(c.message(cmdClose, closeBody(id, 0)))
	either(cmdClose, message, ntstatus.NotifyCleanup)
	c.want(ntstatus.FileClosed, cmdChangeNotify, body(id))

	other.folder("doomed")
	id = c.mustCreate(listable("doomed"))
	message = c.pendNotify(body(id))
	other.unlink("doomed")
	c.final(c.recv()[0], message, ntstatus.DeletePending)
	c.want(ntstatus.DeletePending, cmdChangeNotify, body(id))

	message = c.pendNotify(body(c.mustCreate(listable(""))))
	c.send(c.message(cmdTreeDisconnect, []byte{4, 0, 0, 0}))
	either(cmdTreeDisconnect, message, ntstatus.NotifyCleanup)
	c.mustConnect("data")
	message = c.pendNotify(body(c.mustCreate(listable(""))))
	c.send(c.message(cmdLogoff, []byte{4, 0, 0, 0}))
	either(cmdLogoff, message, ntstatus.NotifyCleanup)

	gone := connect()
	gone.pendNotify(body(gone.mustCreate(listable(""))))
	gone.nc.Close()
	c = connect()
	message = c.pendNotify(body(c.mustCreate(listable(""))))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx, nil); err != nil {
		t.Error(err)
	}
	c.final(c.recv()[0], message, ntstatus.Cancelled)
	c.wantCut()
	if n := s.held.Held(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// The filter and the depth of the first request apply to all requests of an open.
//
// Source: [MS-SMB2 3.3.5.19]
func TestFirstChangeNotifySetsTheFilter(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	c.folder("d")
	id := c.mustCreate(listable(""))
	c.cancel(c.pendNotify(notifyBody(id, 0, 100, 1)), true)
	c.recv()
	message := c.pendNotify(notifyBody(id, 1, 100, changedAll))
	c.folder("e")
	c.mustCreate(create{name: `d\f`, access: 3, share: 7, disposition: 2})
	c.send(c.message(cmdCreate, create{name: "g", access: 3, share: 7, disposition: 2}.body()))
	for range 2 {
		if r := c.recv()[0]; r.command == cmdChangeNotify {
			if got := c.final(r, message, ntstatus.Success); !bytes.Equal(got, change(0, 1, "g")) {
				t.Errorf("%x", got)
			}
		}
	}
}

// Source: [MS-SMB2 3.3.5.19] [MS-SMB2 2.2.35]
func TestInvalidChangeNotifyIsRefused(t *testing.T) {
	_, addr, _ := testServer(t, pipes(nil))
	c := mount(t, addr, "data")
	file, top := c.mustCreate(rw("f")), c.mustCreate(listable(""))
	blind := c.mustCreate(create{access: 0x80, share: 7, disposition: 1, options: 1})
	const invalid = ntstatus.InvalidParameter
	c.want(invalid, cmdChangeNotify, notifyBody(file, 0, 100, changedAll))
	c.want(ntstatus.AccessDenied, cmdChangeNotify, notifyBody(blind, 0, 100, changedAll))
	c.want(invalid, cmdChangeNotify, notifyBody(top, 0, 1<<16+1, changedAll)) // beyond the charge
	c.send(c.charge(c.message(cmdChangeNotify, notifyBody(top, 0, DefaultMaxTransferSize+1, changedAll)), 17))
	if r := c.recv()[0]; r.status != invalid {
		t.Errorf("beyond the negotiated size: %v", r.status)
	}
	whole := notifyBody(top, 0, 100, changedAll)
	for n := range len(whole) {
		c.want(invalid, cmdChangeNotify, whole[:n])
	}
	top[0] ^= 0x55
	c.want(ntstatus.FileClosed, cmdChangeNotify, notifyBody(top, 0, 100, changedAll))
	c.mustConnect("IPC$")
	pipe := c.mustCreate(rw("lwio"))
	c.want(invalid, cmdChangeNotify, notifyBody(pipe, 0, 100, changedAll))
}

// The last request of a compound may wait: the responses to the requests before it are sent first. In
// the middle of a compound CHANGE_NOTIFY does not wait.
//
// Source: [MS-SMB2 3.3.4.2] [MS-SMB2 3.3.5.2.7]
func TestChangeNotifyInCompound(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	c.send(related(c.message(cmdCreate, listable("").body()), c.message(cmdChangeNotify, notifyBody(noID, 0, 100, changedNames)))...)
	r := c.recv()
	if len(r) != 1 || r[0].command != cmdCreate || r[0].status != ntstatus.Success {
		t.Fatalf("%+v", r)
	}
	if r = c.recv(); len(r) != 1 || r[0].status != ntstatus.Pending || r[0].flags&2 == 0 {
		t.Fatalf("%+v", r)
	}
	message := r[0].id
	c.send(c.message(cmdCreate, create{name: "f", access: 3, share: 7, disposition: 2}.body()))
	for range 2 {
		if r := c.recv()[0]; r.command == cmdChangeNotify {
			c.final(r, message, ntstatus.Success)
		}
	}
	c.send(related(
		c.message(cmdCreate, listable("").body()), c.message(cmdChangeNotify, notifyBody(noID, 0, 100, changedNames)), c.message(cmdClose, closeBody(noID, 0)),
	)...)
	want := []ntstatus.Status{ntstatus.Success, ntstatus.InternalError, ntstatus.Success}
	for i, r := range c.recv() {
		if r.status != want[i] {
			t.Errorf("%d: %v, want %v", i, r.status, want[i])
		}
	}
}

// The memory of waiting requests and watches of a user is bounded, and the user is served beside them.
func TestWaitingChangeNotifyMemoryIsBounded(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Memory = 1 })
	refused := false
	for range 20 {
		c := mount(t, addr, "data")
		for range 10 {
			id := c.mustCreate(listable(""))
			c.send(c.message(cmdChangeNotify, notifyBody(id, 1, 64<<10, changedAll)))
			if r := c.recv()[0]; r.status == ntstatus.InsufficientResources {
				refused = true
			} else if r.status != ntstatus.Pending {
				t.Fatal(r.status)
			}
		}
	}
	if n, most := s.held.HeldBy(testUser), s.memory.Limit()/heldShare; !refused || n == 0 || n > most {
		t.Errorf("%d bytes are held, at most %d; refused: %t", n, most, refused)
	}
	c := mount(t, addr, "data")
	f := c.mustCreate(create{name: "f", access: 3, share: 7, disposition: 3})
	c.want(ntstatus.Success, cmdWrite, writeBody(f, 0, make([]byte, 60000)))
}

// A watch whose changes are lost is left out of the operations of others, until a request has taken the loss.
func TestLostWatchIsPaused(t *testing.T) {
	s, stop := newBareServer(t, t.TempDir())
	defer stop()
	open := func(path string, access vfs.Access) *vfs.Open {
		t.Helper()
		o, _, err := s.cfg.FS.Open(vfs.OpenRequest{
			Share: "data", Path: path, Access: access, ShareMode: vfs.ShareAll, Disposition: vfs.OpenIf, Owner: t, User: testUser,
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	dir, f := open("", vfs.ListDirectory), open("f", vfs.Delete)
	defer s.cfg.FS.CloseAll(dir, f)
	w, calls := &watch{last: -1}, 0 // without room for a change
	var err error
	if w.source, err = dir.Watch(vfs.ChangedFileName, false, func(c []vfs.Change) { calls++; w.add(c) }); err != nil {
		t.Fatal(err)
	}
	defer w.source.Stop()
	rename := func(to string) {
		t.Helper()
		if err := f.Rename(to, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{"g", "h", "i"} {
		rename(to)
	}
	if calls != 1 {
		t.Errorf("%d reports of lost changes", calls)
	}
	c := &changeWait{done: make(chan struct{}), out: make([]byte, bodyOffset+bufferFixed)}
	if !w.wait(c) || c.status != ntstatus.NotifyEnumDir {
		t.Errorf("the next request: %v", c.status)
	}
	rename("j")
	if calls != 2 {
		t.Errorf("%d reports after the request", calls)
	}
}
