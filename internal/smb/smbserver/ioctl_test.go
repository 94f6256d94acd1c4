package smbserver

import (
	"context"
	"errors"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbbuf"
)

// testPipe returns the request and the session's user; it waits or fails on request.
type testPipe struct{ gone chan error }

func (p testPipe) Transact(ctx context.Context, s *Session, request []byte, maxOutput int) ([]byte, error) {
	switch string(request) {
	case "wait":
		<-ctx.Done()
		if p.gone != nil {
			p.gone <- ctx.Err()
		}
		return nil, ctx.Err()
	case "fail":
		return nil, errors.New("as asked")
	case "big":
		return make([]byte, 3000), nil
	}
	return append([]byte(s.User()+":"), request...), nil
}

func pipes(gone chan error) func(*Config) {
	return func(c *Config) {
		c.Pipes = map[string]PipeHandler{"Lwio": testPipe{gone}}
		c.ResumeKeyContext = func() []byte { return utf16le(`\\h\pipe\lwio`) }
	}
}

const (
	fsctlResumeKey  = 0x00140078
	fsctlTransceive = 0x0011C017
	fsctlPipeWait   = 0x00110018
	fsctlInterfaces = 0x001401FC
	fsctlReferrals  = 0x00060194
)

// Source: [MS-SMB2 3.3.5.15.8], [MS-SMB2 2.2.32.3], [OP-31], [OP-33]
func TestResumeKeyHasTheContextIfItFits(t *testing.T) {
	s, addr, _ := testServer(t, pipes(nil))
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 32))
	out := r.body[48 : 48+le.Uint32(r.body[36:])]
	if len(out) != 32 || le.Uint32(out[24:]) != 0 {
		t.Errorf("plain client: %x", out)
	}
	o, err := s.cfg.FS.ByResumeKey([24]byte(out), s.session(c.session).Lineage())
	if err != nil || o.Path() != "f" {
		t.Errorf("the key leads to %v, %v", o, err)
	}
	r = c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 1000))
	long := r.body[48 : 48+le.Uint32(r.body[36:])]
	name := utf16le(`\\h\pipe\lwio`)
	if string(long[:24]) != string(out[:24]) || int(le.Uint32(long[24:])) != len(name) || string(long[28:28+len(name)]) != string(name) {
		t.Errorf("LWIO client: %x", long)
	}
	r = c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 40))
	if le.Uint32(r.body[48+24:]) != 0 {
		t.Errorf("no room for the context: %x", r.body[48:])
	}
	c.want(ntstatus.InvalidParameter, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 31))
	c.want(ntstatus.FileClosed, cmdIoctl, ioctlBody([16]byte{1}, fsctlResumeKey, nil, 32))
}

// Source: [MS-SMB2 3.3.5.15], [MS-SMB2 3.3.5.15.2], [MS-SMB2 3.3.5.15.11]
func TestUnsupportedIoctlsAreRefused(t *testing.T) {
	_, addr, _ := testServer(t, pipes(nil))
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	c.want(ntstatus.NotSupported, cmdIoctl, ioctlBody(noID, fsctlInterfaces, nil, 1000))
	c.want(ntstatus.FSDriverRequired, cmdIoctl, ioctlBody(noID, fsctlReferrals, []byte{4, 0, 0, 0}, 1000))
	c.want(ntstatus.InvalidDeviceRequest, cmdIoctl, ioctlBody(id, 0x00090000, nil, 1000))
	c.want(ntstatus.NotSupported, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("x"), 1000))
	c.want(ntstatus.InvalidParameter, cmdIoctl, ioctlBody(id, fsctlInterfaces, nil, 1000))
	c.want(ntstatus.InvalidParameter, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 1<<20+1))
	b := ioctlBody(id, fsctlResumeKey, nil, 32)
	b[48] = 0
	c.want(ntstatus.NotSupported, cmdIoctl, b)
}

// An IOCTL is refused if its lengths are beyond the message, the negotiated size or the charge.
//
// Source: [MS-SMB2 3.3.5.15], [MS-SMB2 3.3.5.2.5]
func TestIoctlLimits(t *testing.T) {
	_, addr, _ := testServer(t, pipes(nil))
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	const unit, largest = 1 << 16, DefaultMaxTransferSize
	for _, x := range []struct {
		name   string
		in     []byte
		change func(b []byte)
		charge uint16
		want   ntstatus.Status
	}{
		{"as usual", nil, func([]byte) {}, 1, ntstatus.Success},
		{"input that is not used", make([]byte, 100), func([]byte) {}, 1, ntstatus.Success},
		{"room for the largest output", nil, func(b []byte) { le.PutUint32(b[44:], largest) }, largest / unit, ntstatus.Success},
		{"room beyond the negotiated size", nil, func(b []byte) { le.PutUint32(b[44:], largest+1) }, largest/unit + 1, ntstatus.InvalidParameter},
		{"room beyond the charge", nil, func(b []byte) { le.PutUint32(b[44:], unit+1) }, 1, ntstatus.InvalidParameter},
		{"room of all ones", nil, func(b []byte) { le.PutUint32(b[44:], ^uint32(0)) }, 1, ntstatus.InvalidParameter},
		{"room for input and output beyond the charge", nil, func(b []byte) {
			le.PutUint32(b[32:], unit)
			le.PutUint32(b[44:], 32)
		}, 1, ntstatus.InvalidParameter},
		{"input beyond the charge", make([]byte, unit+1), func([]byte) {}, 1, ntstatus.InvalidParameter},
		{"input behind the message", nil, func(b []byte) { le.PutUint32(b[28:], 2) }, 1, ntstatus.InvalidParameter},
		{"input of all ones", nil, func(b []byte) { le.PutUint32(b[28:], ^uint32(0)) }, 1, ntstatus.InvalidParameter},
		{"input in the header", make([]byte, 8), func(b []byte) { le.PutUint32(b[24:], 8) }, 1, ntstatus.InvalidParameter},
		{"input that wraps", make([]byte, 8), func(b []byte) { le.PutUint32(b[24:], ^uint32(0)-3) }, 1, ntstatus.InvalidParameter},
		{"no FSCTL", nil, func(b []byte) { le.PutUint32(b[48:], 0) }, 1, ntstatus.NotSupported},
	} {
		b := ioctlBody(id, fsctlResumeKey, x.in, 32)
		x.change(b)
		c.send(c.charge(c.message(cmdIoctl, b), x.charge))
		if r := c.recv()[0]; r.status != x.want {
			t.Errorf("%s: %v, want %v", x.name, r.status, x.want)
		}
	}
}

// Source: [MS-SMB2 3.3.5.15.3], [MS-FSCC 2.3.45], [OP-34]
func TestPipeMessagesReadsAndOverflow(t *testing.T) {
	_, addr, _ := testServer(t, pipes(nil))
	c := mount(t, addr, "IPC$")
	c.want(ntstatus.ObjectNameNotFound, cmdCreate, rw("spoolss").body())
	id := c.mustCreate(create{name: "LWIO", access: 3, share: 7, disposition: 1})
	out := func(r reply) string { return string(r.body[48 : 48+le.Uint32(r.body[36:])]) }
	r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("hi"), 1000))
	if out(r) != "alice:hi" {
		t.Errorf("response %q", out(r))
	}
	// Bytes that do not fit stay in the pipe.
	r = c.want(ntstatus.BufferOverflow, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("big"), 1000))
	if len(out(r)) != 1000 {
		t.Errorf("first part of %d bytes", len(out(r)))
	}
	c.want(ntstatus.PipeBusy, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("hi"), 1000))
	c.want(ntstatus.BufferOverflow, cmdRead, readBody(id, 0, 1500, 0))
	r = c.want(ntstatus.Success, cmdRead, readBody(id, 0, 1500, 0))
	if len(r.body)-16 != 500 {
		t.Errorf("last part of %d bytes", len(r.body)-16)
	}
	// Write and read.
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("yo")))
	if r = c.want(ntstatus.Success, cmdRead, readBody(id, 0, 1500, 0)); string(r.body[16:]) != "alice:yo" {
		t.Errorf("read %q", r.body[16:])
	}
	c.want(ntstatus.PipeEmpty, cmdRead, readBody(id, 0, 10, 0))
	c.want(ntstatus.Success, cmdIoctl, ioctlBody(noID, fsctlPipeWait, append(make([]byte, 8), append([]byte{8, 0, 0, 0, 0, 0}, utf16le("lwio")...)...), 0))
	c.want(ntstatus.PipeDisconnected, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("fail"), 1000))
	c.want(ntstatus.PipeDisconnected, cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("hi"), 1000))
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
}

// A slow pipe causes an interim response, can be cancelled, and ends with its connection.
//
// Source: [MS-SMB2 3.3.5.15.3], [MS-SMB2 3.3.5.16], [MS-SMB2 3.3.4.2]
func TestPipeWaitsAndIsCanceled(t *testing.T) {
	gone := make(chan error, 4)
	_, addr, _ := testServer(t, pipes(gone))
	c := mount(t, addr, "IPC$")
	id := c.mustCreate(create{name: "lwio", access: 3, share: 7, disposition: 1})
	m := c.message(cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("wait"), 1000))
	c.send(m)
	interim := c.recv()[0]
	if interim.status != ntstatus.Pending || interim.flags&2 == 0 || interim.flags&8 != 0 || interim.credits == 0 {
		t.Fatalf("interim response: %v, flags %#x", interim.status, interim.flags)
	}
	// Other requests of the connection are served.
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	cancel := c.message(cmdCancel, []byte{4, 0, 0, 0})
	c.id--
	copy(cancel[24:32], m[24:32])
	le.PutUint32(cancel[16:], 2)
	copy(cancel[32:40], interim.msg[32:40])
	c.send(cancel)
	if r := c.recv()[0]; r.status != ntstatus.Cancelled || r.id != interim.id || r.flags&2 == 0 || r.credits != 0 {
		t.Errorf("after cancel: %v, id %d, flags %#x, credits %d", r.status, r.id, r.flags, r.credits)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("handler saw %v", err)
	}
	id = c.mustCreate(create{name: "lwio", access: 3, share: 7, disposition: 1})
	c.send(c.message(cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("wait"), 1000)))
	c.recv()
	c.nc.Close()
	<-gone
}

// No interim response follows a final one.
//
// Source: [MS-SMB2 3.3.4.2]
func TestNoInterimAfterFinalResponse(t *testing.T) {
	p := &response{finished: true}
	p.sendInterim(func(*smbbuf.Buffer) { t.Error("an interim response is written") })
	if p.async {
		t.Error("interim response after the real one")
	}
}

// All opens of a file report the same object id, and each file has another one.
//
// Source: [MS-FSCC 2.3.1], [MS-FSCC 2.1.3.1]
func TestObjectIDIdentifiesTheFile(t *testing.T) {
	const fsctlObjectID = 0x000900C0
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	shared := func(name string) [16]byte {
		o := rw(name)
		o.share = 7
		return c.mustCreate(o)
	}
	ask := func(id [16]byte) [16]byte {
		t.Helper()
		r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlObjectID, nil, 64))
		if n := le.Uint32(r.body[36:]); n != 64 {
			t.Fatalf("%d bytes", n)
		}
		return [16]byte(r.body[48:])
	}
	f, again, g := shared("f"), shared("f"), shared("g")
	if a, b, other := ask(f), ask(again), ask(g); a != b || a == other || a == [16]byte{} {
		t.Errorf("%x, %x, %x", a, b, other)
	}
	c.want(ntstatus.BufferTooSmall, cmdIoctl, ioctlBody(f, fsctlObjectID, nil, 63))
}
