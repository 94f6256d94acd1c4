package server

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/faultconn"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// A client that tries to write or read memory of the server by RDMA, at any address, loses its
// connection, and no other does.
//
// Source: [LWIO claim 2] [OP-100] [OP-104]
func TestRemoteAccessEndsConnection(t *testing.T) { onEach(t, testRemoteAccessEndsConnection) }

func testRemoteAccessEndsConnection(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	other := v.client()
	region := v.conn().receives.region.RemoteAddr() // the best guess there could be
	for _, at := range []rdma.RemoteAddr{region, {Addr: region.Addr, Token: region.Token + 1}, {}} {
		c := v.client()
		req := rdma.Request{Op: rdma.OpWrite, SGL: []rdma.SGE{{Region: c.out, Length: 8}}, Remote: at}
		if _, err := c.qp.Post([]rdma.Request{req}); err != nil {
			t.Fatal(err)
		}
		for c.lost == nil {
			c.poll(func(r *rdma.Result) bool { return false })
			if c.lost == nil {
				c.send(controlHeader(wire.OpCancel, 0xFFFF), nil) // it may not know yet
			}
		}
	}
	eventually(t, "only one connection is left", func() bool { return v.e.count.connections.Load() == 1 })
	v.check(other)
}

// Options may come in any order, unknown ones are skipped, and none may come twice.
//
// Source: [OP-46] [OP-50b]
func TestAuthOptionsInAnyOrder(t *testing.T) { onEach(t, testAuthOptionsInAnyOrder) }

func testAuthOptionsInAnyOrder(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, allowMD5: true})
	for name, x := range map[string]struct {
		option []byte
		denied bool
	}{
		"unknown":                 {[]byte{0xF0, 3, 1, 2, 3}, false},
		"unknown, empty":          {[]byte{0x7F, 0}, false},
		"key again":               {append([]byte{1, 16}, make([]byte, 16)...), true},
		"unknown twice":           {[]byte{0xF0, 0, 0xF0, 0}, true},
		"longer than the message": {[]byte{0xF0, 200, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v.in(t)
			n := v.negotiate(v.sess)
			c := v.connect(n)
			msg, _ := c.authMessage(n, authOptions{unkeyed: true})
			params := append(append([]byte{}, msg[wire.HeaderSize:wire.HeaderSize+authFixedSize]...), x.option...)
			params = append(params, msg[wire.HeaderSize+authFixedSize:]...)
			if err := wire.SignMD5(params); err != nil && !x.denied {
				t.Fatal(err)
			}
			msg = relength(append(msg[:wire.HeaderSize], params...))
			if x.denied {
				c.wantDenied(msg)
				return
			}
			c.raw(msg)
			if s := c.reply(); s.Status != 0 {
				t.Errorf("AUTH: %v", ntstatus.Status(s.Status))
			}
		})
	}
}

// A gap in the Sequences is counted and has no other effect.
//
// Source: [OP-21]
func TestSequenceGapsAreCounted(t *testing.T) { onEach(t, testSequenceGapsAreCounted) }

func testSequenceGapsAreCounted(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(10)))
	for _, jump := range []uint16{1, 0x8000, 0xFFFF} {
		c.sequence += jump
		c.want(ntstatus.Success, 10, c.readHeader(fid, 0, 100, 0), nil)
	}
	if n := v.e.count.snapshot().SequenceGaps; n != 3 {
		t.Errorf("%d gaps counted, want 3", n)
	}
	v.check(c)
}

// An INTERRUPT with an impossible count, 0 or less than is outstanding, waits like any other and
// affects no other connection.
//
// Source: [OP-93a] [OP-93e] [OP-93f]
func TestImpossibleInterruptWaits(t *testing.T) { onEach(t, testImpossibleInterruptWaits) }

func testImpossibleInterruptWaits(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	b.shut()
	for range 3 {
		h, _ := c.polledRead(fid)
		c.send(h, nil)
	}
	for _, count := range []int{0, 1} {
		armed := c.send(wire.NewInterrupt(count), nil)
		c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0xFFFF), nil) // and no answer before this
		b.open()
		if s := c.reply(); s.Cookie != armed || s.Status != 0 {
			t.Fatalf("%+v, want the wake-up", s)
		}
		eventually(t, "all reads are over", func() bool { return v.pending() == 0 })
		b.shut()
		h, _ := c.polledRead(fid)
		c.send(h, nil)
	}
	b.open()
	v.serves()
}

// A client that sends half a message and then nothing keeps its connection as long as its session
// lasts, and holds up no other.
//
// Source: [LWIO §I/O Processing] [OP-94g]
func TestHalfAMessageHoldsUpNoOther(t *testing.T) {
	v := newEnv(t, envConfig{})
	full := faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	v.provider = iwarp.New(&iwarp.Config{Dial: full.DialTCP})
	v.client().connector.Close()
	eventually(t, "it is gone", v.deserted)
	half := faultconn.Dialer{SendLimit: full.Sent() + 20, ReceiveLimit: -1, Freeze: true}
	v.provider = iwarp.New(&iwarp.Config{Dial: half.DialTCP})
	c := v.client()
	c.send(controlHeader(wire.OpCancel, 1), nil)
	if half.Sent() <= half.SendLimit {
		t.Fatal("the whole message went out")
	}
	v.provider = providers["iwarp"]()
	sess := newFakeSession(5)
	n := v.negotiate(sess)
	other := v.connect(n)
	other.auth(n, authOptions{})
	other.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 1), nil)
	if n := v.e.count.authenticated.Load(); n != 2 {
		t.Errorf("%d connections, want both", n)
	}
	v.sess.end()
	eventually(t, "the half message goes with its session", func() bool { return v.e.count.authenticated.Load() == 1 })
	other.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 1), nil)
}

// Source: [OP-92e]
func TestUnknownFlagOrOpcodeIsRefused(t *testing.T) { onEach(t, testUnknownFlagOrOpcodeIsRefused) }

func testUnknownFlagOrOpcodeIsRefused(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	c.want(ntstatus.InvalidDeviceRequest, 0, controlHeader(0x42, 0), nil)
	h := controlHeader(wire.OpClose, 1)
	h.Flags |= 4
	c.want(ntstatus.InvalidParameter, 0, h, nil)
	v.check(c)
}
