package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/faultconn"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
)

// life sends all messages but those of credits, one by one, until the connection ends, and
// reports whether the data was acknowledged as written.
func (c *rawClient) life(n *negotiated, o *vfs.Open, data []byte) (written, whole bool) {
	c.t.Helper()
	msg, _ := c.authMessage(n, authOptions{})
	c.raw(msg)
	s, ok := c.status()
	if !ok || s.Status != 0 {
		return false, false
	}
	p, err := wire.DecodeAuthParams(bytes.Clone(c.in.Bytes()[:s.Information-8]))
	if err != nil {
		c.t.Fatal(err)
	}
	c.sessionID, c.sequence = *p.SessionID, p.BaseSequence
	h, body := c.registerMessage(o)
	c.send(h, body)
	if s, ok = c.status(); !ok {
		return false, false
	}
	fid := uint16(s.Information)
	c.send(writeHeader(fid, 0, len(data)), data)
	if s, ok = c.status(); !ok {
		return false, false
	}
	if s.Status != 0 || int(s.Information) != len(data) {
		c.t.Errorf("WRITE: %+v", s)
	}
	polled, _ := c.polledRead(fid)
	region := wire.RDMARegion{DataVa: c.in.RemoteAddr().Addr, DataMh: uint32(c.in.RemoteAddr().Token), Length: 512}
	for _, m := range []struct {
		h      wire.Header
		body   []byte
		silent bool
	}{
		{c.readHeader(fid, 0, 100, 0), nil, false},
		{by(wire.NewVecRead(fid, 0, 512, 1, 512), completion{Cookie: 7}), region.AppendTo(nil), false},
		{polled, nil, true},
		{wire.NewInterrupt(1), nil, false},
		{controlHeader(wire.OpCancel, fid), nil, false},
		{controlHeader(wire.OpClose, fid), nil, false},
	} {
		c.send(m.h, m.body)
		if m.silent {
			continue
		}
		if s, ok = c.status(); !ok {
			return true, false
		}
		if s.Status != 0 {
			c.t.Errorf("%v: %v", m.h.Opcode, ntstatus.Status(s.Status))
		}
	}
	return true, true
}

// status waits for the next status response; false if the connection ends.
func (c *rawClient) status() (s wire.StatusResponse, ok bool) {
	c.t.Helper()
	for len(c.got) == 0 && c.lost == nil {
		c.poll(func(*rdma.Result) bool { return true })
	}
	if len(c.got) == 0 {
		return s, false
	}
	s, c.got = c.got[0], c.got[1:]
	return s, true
}

// deathEnv is a server whose clients die, and that must keep nothing of them.
type deathEnv struct {
	*env
	o    *vfs.Open
	last []byte // content of the file
	n    int
}

func newDeathEnv(t *testing.T, ec envConfig) *deathEnv {
	v := newEnv(t, ec)
	d := &deathEnv{env: v, last: bytes.Repeat([]byte{'0'}, 600)}
	d.o = v.file("a", d.last)
	return d
}

// runOne runs one client over a provider, and demands that nothing of it is left but the data that
// it wrote, as a whole or not at all.
func (d *deathEnv) runOne(p rdma.Provider) (whole bool) {
	d.t.Helper()
	d.n++
	data := fmt.Appendf(nil, "life %08d", d.n)
	d.provider = p
	n := d.negotiate(d.sess)
	c, err := d.tryConnect(n)
	written := false
	if err == nil {
		written, whole = c.life(n, d.o, data)
	}
	c.a.Close()
	eventually(d.t, "the connection is gone", d.deserted)
	got, err := os.ReadFile(filepath.Join(d.dir, "a"))
	if err != nil {
		d.t.Fatal(err)
	}
	if want := append(data, d.last[len(data):]...); bytes.Equal(got, want) {
		d.last = want
	} else if written || !bytes.Equal(got, d.last) {
		d.t.Fatalf("the file holds %.20q instead of %.20q (acknowledged: %v)", got, want, written)
	}
	return whole
}

// wantNothingLeft demands that the server has everything back that its clients held.
func (d *deathEnv) wantNothingLeft() {
	d.t.Helper()
	if n := d.e.count.files.Load() + d.e.count.authenticated.Load(); n != 0 || int(d.e.credits.sum.Held()) != 0 {
		d.t.Errorf("%d files and connections are left, and %d credits", n, int(d.e.credits.sum.Held()))
	}
	a := d.e.fabrics[0].buffers
	a.mu.Lock()
	defer a.mu.Unlock()
	if size := len(a.bytes); a.spare != size || len(a.usages) != 0 || !a.queue.empty() {
		d.t.Errorf("%d of %d bytes are free, %d files have some", a.spare, size, len(a.usages))
	}
	if n := len(d.e.readers.queues) + len(d.e.writers.queues); n != 0 {
		d.t.Errorf("%d file queues are left", n)
	}
}

// A client dies at every byte that it sends, and at every byte that is sent to it.
//
// Source: [LWIO §I/O Processing] [OP-94f]
func TestServerOutlivesClientDeathAtEveryByte(t *testing.T) {
	d := newDeathEnv(t, envConfig{})
	dying := func(out, in int64) rdma.Provider {
		life := faultconn.Dialer{SendLimit: out, ReceiveLimit: in}
		return iwarp.New(&iwarp.Config{Dial: life.DialTCP})
	}
	full := faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	if !d.runOne(iwarp.New(&iwarp.Config{Dial: full.DialTCP})) {
		t.Fatal("a client that does not die has not lived")
	}
	allOut, allIn, step := full.Sent(), full.Received(), int64(1)
	if allOut < 700 || allIn < 700 {
		t.Fatalf("only %d bytes sent and %d received", allOut, allIn)
	}
	if testing.Short() || raceEnabled {
		step = 13
	}
	lived := 0
	for k := int64(0); k < allOut; k += step {
		if d.runOne(dying(k, -1)) {
			lived++
		}
	}
	for k := int64(0); k < allIn; k += step {
		if d.runOne(dying(-1, k)) {
			lived++
		}
	}
	if lived > d.n/8 { // the last bytes end the connection
		t.Errorf("%d of %d clients lived to the end", lived, d.n)
	}
	d.wantNothingLeft()
	d.provider = providers["iwarp"]()
	d.check(d.client())
}

// Over any provider a client dies at each of its operations, and the connection at
// each of the server's.
//
// Source: [LWIO §I/O Processing] [OP-94f]
func TestServerOutlivesClientDeathAtEveryOperation(t *testing.T) {
	onEach(t, testServerOutlivesClientDeathAtEveryOperation)
}

func testServerOutlivesClientDeathAtEveryOperation(t *testing.T, on string) {
	const operations = 10 // of the client's; the server has more
	var at, deaths atomic.Int64
	cut := func(a fault.Attempt) fault.Action {
		if int64(a.N) == at.Load() {
			deaths.Add(1)
			return fault.Cut()
		}
		return fault.Pass()
	}
	d := newDeathEnv(t, envConfig{on: on})
	for at.Store(1); at.Load() < operations; at.Add(1) {
		if d.runOne(fault.Wrap(providers[on](), &fault.Config{Fault: cut})) {
			t.Errorf("a client that died at %d lived to the end", at.Load())
		}
	}
	d.wantNothingLeft()
	d.provider = providers[on]()
	d.check(d.client())

	at.Store(0)
	d = newDeathEnv(t, envConfig{on: on, provider: fault.Wrap(providers[on](), &fault.Config{Fault: cut})})
	for at.Store(1); at.Load() < operations; at.Add(1) {
		d.runOne(providers[on]())
	}
	if n := deaths.Load(); n != 2*(operations-1) {
		t.Errorf("%d deaths", n)
	}
	d.wantNothingLeft()
	at.Store(0)
	d.check(d.client())
}
