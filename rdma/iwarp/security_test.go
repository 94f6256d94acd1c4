package iwarp

import (
	"bytes"
	"context"
	"math/big"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// This file has one test for each security requirement of the standards. Most
// requirements have more specific tests elsewhere.

// aimed makes the three requests with which a peer can access 8 bytes.
func aimed(p *rawPeer, at rdma.RemoteAddr) map[string][]byte {
	token := uint32(at.Token)
	return map[string][]byte{
		"write":  p.frame(frame.TaggedSegment(frame.OpWrite, token, at.Addr, true), bytes.Repeat([]byte{0xEE}, 8)),
		"read":   p.frame(readSegment(1), (&frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: token, SourceTO: at.Addr}).AppendTo(nil)),
		"atomic": p.frame(atomicSegment(1), (&frame.AtomicRequest{STag: token, TO: at.Addr, Data: 0xEE}).AppendTo(nil)),
	}
}

// A token is valid only in its protection domain, for all requests of a peer. The token
// of a window is valid only on its connection.
//
// Source: [RFC 5042 §6.3], [RFC 5040 §8.1.1]
func TestSecurity01Scope(t *testing.T) {
	for _, ask := range []string{"write", "read", "atomic"} {
		for name, theirs := range map[string]func(e *side) (*side, rdma.RemoteAddr){
			"region of another domain": func(*side) (*side, rdma.RemoteAddr) {
				other := newSide(t, nil, shape{depth: 1, sge: 1, buf: 4096})
				return other, other.at(0)
			},
			"window of another connection": func(e *side) (*side, rdma.RemoteAddr) {
				other, _ := joinRaw(t, e.a)
				_, at := other.bindWindow(0, 64, rdma.FlagAllowRead|rdma.FlagAllowWrite)
				return other, at
			},
		} {
			e, p := connectReads(t, CRCOn, readyWrite)
			owner, at := theirs(e)
			p.send(aimed(p, at)[ask])
			want := []byte{0x01, 0}
			if ask == "write" {
				want[0] = 0x11
			}
			if got := p.wantTerminate(); !bytes.Equal(got[:2], want) {
				t.Errorf("%s of a %s: Terminate %x", ask, name, got)
			}
			if !bytes.Equal(owner.buf[:64], make([]byte, 64)) {
				t.Errorf("%s of a %s: done", ask, name)
			}
		}
	}
}

// joinRaw connects a raw peer to a new queue pair of an adapter, with changes to its
// config.
func joinRaw(t *testing.T, a rdma.Adapter, config ...func(*rdma.QueuePairConfig)) (*side, *rawPeer) {
	t.Helper()
	e := newSideOn(t, a, shape{depth: 8, sge: 2, buf: 4096})
	for _, change := range config {
		c := rdma.QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: 8, MaxReceiveSGE: 1}
		change(&c)
		var err error
		if e.qp, err = a.CreateQueuePair(c); err != nil {
			t.Fatal(err)
		}
	}
	l, err := rdma.Listen(t.Context(), a, rdma.Addr{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	p := dialRaw(t, addr)
	p.crc = true
	p.send((&frame.Startup{Revision: 1, CRC: true}).AppendTo(nil))
	if err := l.ConnectionRequest(t.Context(), e.con); err != nil {
		t.Fatal(err)
	}
	if err := e.con.Accept(t.Context(), e.qp, rdma.ReadLimits{Inbound: 2, Outbound: 2}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := readStartup(p.nc, true); err != nil {
		t.Fatal(err)
	}
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 0, 0, true), nil)
	e.awaitOpen()
	return e, p
}

// awaitOpen waits for the first frame of the peer.
func (e *side) awaitOpen() { <-e.qp.(*queuePair).c.ready }

// The accessible range agrees with arithmetic without overflow.
//
// Source: [RFC 5042 §6.3], [RFC 5041 §7]
func TestSecurity02Bounds(t *testing.T) {
	e, _ := connectRaw(t, CRCOn)
	_, windowAt := e.bindWindow(100, 50, rdma.FlagAllowRead|rdma.FlagAllowWrite)
	qp := e.qp.(*queuePair)
	rapid.Check(t, func(t *rapid.T) {
		at, length := e.at(0), uint64(len(e.buf))
		if rapid.Bool().Draw(t, "window") {
			at, length = windowAt, 50
		}
		edge := rapid.SampledFrom([]uint64{at.Addr, at.Addr + length, 0, 1 << 63, at.Addr + 1<<32}).Draw(t, "edge")
		to := edge + uint64(rapid.Int64Range(-70, 70).Draw(t, "off"))
		n := rapid.OneOf(rapid.Uint64Range(1, 80), rapid.Just(length), rapid.Just(^uint64(0)), rapid.Just(-to), rapid.Just(1-to)).Draw(t, "n")
		if n == 0 {
			return
		}
		_, got, refused := qp.Initiator.Windows.Resolve(uint32(at.Token), to, n, rdma.AccessRemoteWrite)
		number := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
		end := number(to)
		end.Add(end, number(n))
		inside := to >= at.Addr && end.Cmp(number(at.Addr+length)) <= 0
		if inside != (refused == 0) || inside && uint64(len(got)) != n || !inside && got != nil {
			t.Fatalf("%d bytes at %#x of %d at %#x: %v, %d bytes", n, to, length, at.Addr, refused, len(got))
		}
	})
}

// A peer has only the rights of the region or window. No right implies another right, and
// no right is given by default.
//
// Source: [RFC 5042 §6.3.5], [RFC 5040 §8.1.1]
func TestSecurity03Rights(t *testing.T) {
	const reads, writes = rdma.AccessRemoteRead, rdma.AccessRemoteWrite
	for _, has := range []rdma.Access{0, rdma.AccessLocalWrite, rdma.AccessReadSink, reads, writes, reads | writes} {
		for ask, needs := range map[string]rdma.Access{"read": reads, "write": writes, "atomic": reads | writes} {
			e, p := connectReads(t, CRCOn, readyWrite)
			mr, err := e.a.RegisterMemory(t.Context(), e.buf, has)
			if err != nil {
				t.Fatal(err)
			}
			p.send(aimed(p, mr.RemoteAddr())[ask])
			p.fpdu(frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true), []byte{0, 0, 0, 0})
			answered := false
			for {
				s, _, err := p.receive()
				if err != nil {
					break
				}
				answered = answered || s.Opcode() == frame.OpTerminate
			}
			if refused := !has.Has(needs); answered != refused {
				t.Errorf("a region of rights %x: %s refused %v", has, ask, answered)
			}
			p.nc.Close()
			e.wantDone()
		}
	}
}

// No byte changes after the result of an invalidate, or after Close of the region has
// returned.
//
// Source: [RFC 5042 §6.3.3], [OP-111b]
func TestSecurity04Revocation(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		e, p := connectRawTo(t, &Config{CRC: crc, DrainTimeout: time.Millisecond})
		const n = 48 << 10
		w, at := e.bindWindow(0, n, rdma.FlagAllowWrite)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := byte(1); ; i++ {
				frame := p.frame(frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true), bytes.Repeat([]byte{i}, n))
				if _, err := p.nc.Write(frame); err != nil {
					return
				}
			}
		}()
		for range 5 {
			time.Sleep(time.Millisecond) // lets some writes arrive; their number does not matter
		}
		e.post(rdma.Request{Op: rdma.OpInvalidate, ID: 6, Window: w})
		e.want(rdma.OpInvalidate, 6, rdma.StatusSuccess)
		after := bytes.Clone(e.buf[:n])
		e.wantDone()
		e.con.Close()
		<-done
		if !bytes.Equal(after, e.buf[:n]) {
			t.Error("written after the window was invalidated")
		}
	}
}

// Tokens and addresses vary in all their bits, have no order, differ between adapters,
// and are not reused soon.
//
// Source: [RFC 5042 §6.1.1], [RFC 5040 §8.1.1]
func TestSecurity05Tokens(t *testing.T) {
	const draws = 4096
	e, _ := connectRaw(t, CRCOn)
	e.a.(*adapter).Domain.Keys.Generator = rand.NewChaCha8([32]byte{5}) // the same random numbers in each run
	w, err := e.a.CreateMemoryWindow()
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]func() rdma.RemoteAddr{
		"region": func() rdma.RemoteAddr {
			mr, err := e.a.RegisterMemory(t.Context(), e.buf, 0)
			if err != nil {
				t.Fatal(err)
			}
			mr.Close()
			return mr.RemoteAddr()
		},
		"window": func() rdma.RemoteAddr {
			e.post(rdma.Request{Op: rdma.OpBind, Flags: rdma.FlagAllowRead, Window: w, Region: e.mr, Length: 8},
				rdma.Request{Op: rdma.OpInvalidate, Window: w})
			at := w.RemoteAddr()
			e.next()
			e.next()
			return at
		},
	}
	for name, draw := range next {
		seen := make(map[rdma.RemoteToken]bool)
		var ones [32]int
		last, rises := rdma.RemoteToken(0), 0
		for range draws {
			at := draw()
			if seen[at.Token] {
				t.Errorf("%s: token %x came back", name, at.Token)
			}
			seen[at.Token] = true
			if at.Token > last {
				rises++
			}
			last = at.Token
			for bit := range ones {
				ones[bit] += int(at.Token >> bit & 1)
			}
		}
		for bit, n := range ones[1:] { // the lowest bit distinguishes regions from windows
			if n < draws*2/5 || n > draws*3/5 {
				t.Errorf("%s: bit %d is set in %d of %d tokens", name, bit+1, n, draws)
			}
		}
		if rises < draws*2/5 || rises > draws*3/5 {
			t.Errorf("%s: %d of %d tokens are above the one before", name, rises, draws)
		}
	}
	first, second := newSide(t, nil, shape{depth: 1, sge: 1, buf: 4096}), newSide(t, nil, shape{depth: 1, sge: 1, buf: 4096})
	if first.at(0).Token == second.at(0).Token && first.at(0).Addr>>12 == second.at(0).Addr>>12 {
		t.Error("two adapters begin alike")
	}
}

// A peer can invalidate only the windows of its own connection.
//
// Source: [RFC 5042 §6.3], [RFC 5040 §4.7]
func TestSecurity06Invalidate(t *testing.T) {
	for name, token := range map[string]func(e *side, p *rawPeer) uint32{
		"region": func(e *side, _ *rawPeer) uint32 { return uint32(e.at(0).Token) },
		"window of another connection": func(e *side, _ *rawPeer) uint32 {
			other, _ := joinRaw(t, e.a)
			_, at := other.bindWindow(0, 8, rdma.FlagAllowWrite)
			return uint32(at.Token)
		},
		"sink of a read": func(e *side, p *rawPeer) uint32 {
			e.post(rdma.Request{Op: rdma.OpRead, ID: 3, Flags: rdma.FlagSilentSuccess, SGL: e.sgl(0, 8)})
			_, b, err := p.receive()
			r, _ := frame.DecodeReadRequest(b)
			if err != nil {
				t.Error(err)
			}
			return r.SinkSTag
		},
		"nothing": func(*side, *rawPeer) uint32 { return 0 },
	} {
		e, p := connectReads(t, CRCOn, readyWrite)
		e.recv(1, 0, 8)
		s := frame.UntaggedSegment(frame.OpSendInvalidate, frame.QueueSend, 1, 0, true)
		s.STag = token(e, p)
		p.fpdu(s, nil)
		if got := p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x01, 9}) {
			t.Errorf("%s: Terminate %x", name, got)
		}
	}
}

// A completion queue that overruns ends the connections that use it, and no other
// connections of the adapter.
//
// Source: [RFC 5042 §6.4.3.2], [ND CompletionQueue]
func TestSecurity07Queues(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	cq, err := e.a.CreateCompletionQueue(1)
	if err != nil {
		t.Fatal(err)
	}
	small, flooder := joinRaw(t, e.a, func(c *rdma.QueuePairConfig) { c.ReceiveCQ, c.InitiatorCQ = cq, cq })
	for i := range uint64(4) {
		small.recv(i, 0, 8)
	}
	for msn := range uint32(4) {
		if _, err := flooder.nc.Write(flooder.frame(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, msn+1, 0, true), nil)); err != nil {
			break
		}
	}
	small.wantDone()
	e.recv(1, 0, 8)
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), []byte("alive"))
	if r := e.want(rdma.OpReceive, 1, rdma.StatusSuccess); r.Bytes != 5 {
		t.Errorf("%+v", r)
	}
}

// A peer that requests reads without reading the answers makes this side keep at most the
// agreed number of answers.
//
// Source: [RFC 5042 §6.4.3.3], [RFC 6581 §9.1]
func TestSecurity08Reads(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	fillRandom(e.buf, 8)
	var frames []byte
	for msn := range uint32(1000) {
		r := frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 256 << 10, SourceSTag: uint32(e.at(0).Token), SourceTO: e.at(0).Addr}
		frames = append(frames, p.frame(readSegment(msn+1), r.AppendTo(nil))...)
	}
	raceRelease() // the answering goroutine sees the bytes
	go func() { _, _ = p.nc.Write(frames) }()
	e.wantDone()
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	if n := qp.reads.answers.Len(); n > 2 {
		t.Errorf("%d answers are kept", n)
	}
	qp.Initiator.Unlock()
	p.nc.Close()
	e.con.Close()
}

// slowHost is a connection from a given host that sends no data.
type slowHost struct {
	net.Conn
	host string
}

func (c slowHost) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }

// slowHosts is a listener for such connections. A nil in the channel is accepted after
// the preceding connections were handled.
type slowHosts struct {
	net.Listener
	come   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *slowHosts) Accept() (net.Conn, error) {
	for {
		select {
		case c := <-l.come:
			if c != nil {
				return c, nil
			}
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

func (l *slowHosts) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A host that opens more connections than may be in start-up loses only its own
// connections. (Time limits: TestStartupStepsHaveTimeLimits,
// TestRequestOfWrongLengthIsRefused; queued requests:
// TestRequestsAboveTheBacklogAreRefused; refused requests:
// TestRejectedPeersAreDrainedTogether.)
//
// Source: [RFC 5042 §6.4]
func TestSecurity11Limits(t *testing.T) {
	hosts := &slowHosts{come: make(chan net.Conn), closed: make(chan struct{})}
	listenSide(t, &Config{
		MaxStartups: 4, RequestTimeout: time.Hour,
		Listen: func(ctx context.Context, local *net.TCPAddr) (_ net.Listener, err error) {
			hosts.Listener, err = listenTCP(ctx, local)
			return hosts, err
		},
	}, shape{depth: 1, sge: 1, buf: 4096})
	arrive := func(host string) net.Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		hosts.come <- slowHost{ours, host}
		hosts.come <- nil
		return theirs
	}
	gone := func(c net.Conn, by time.Time) bool {
		_ = c.SetReadDeadline(by)
		_, err := c.Read(make([]byte, 1))
		return !netStatusIsTimeout(err)
	}
	honest := []net.Conn{arrive("192.0.2.1"), arrive("192.0.2.2")}
	var flood []net.Conn
	for range 20 {
		flood = append(flood, arrive("192.0.2.66"))
	}
	lost, stay := flood[:len(flood)-2], flood[len(flood)-2:]
	for i, c := range lost {
		if !gone(c, time.Now().Add(testTimeout)) {
			t.Errorf("connection %d of the flood has a place", i)
		}
	}
	for _, c := range stay {
		if gone(c, softrdma.LongAgo) {
			t.Error("a connection of the flood lost its place to no other")
		}
	}
	for i, c := range honest {
		if gone(c, softrdma.LongAgo) {
			t.Errorf("host %d lost its place to another", i+1)
		}
	}
}

// netStatusIsTimeout reports whether a read timed out.
func netStatusIsTimeout(err error) bool { return netStatus(err, 0) == rdma.StatusIOTimeout }

// A peer whose messages the program does not take cannot use up the receives of other
// peers.
//
// Source: [RFC 5042 §6.4.3.1], [ND SharedReceiveQueue]
func TestSecurity12SharedReceives(t *testing.T) {
	first, _ := connectRaw(t, CRCOn)
	queue, err := first.a.CreateSharedReceiveQueue(rdma.SharedReceiveQueueConfig{Depth: 8, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	share := func(c *rdma.QueuePairConfig) { c.SharedReceive = queue }
	e, flooder := joinRaw(t, first.a, share)
	victim, p := joinRaw(t, first.a, share)
	for i := range uint64(8) {
		if _, err := queue.PostReceive([]rdma.ReceiveRequest{{ID: i, SGL: e.sgl(int(8*i), 8)}}); err != nil {
			t.Fatal(err)
		}
	}
	for msn := range uint32(20) {
		flooder.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, msn+1, 0, true), []byte("noise"))
	}
	for range 6 { // three quarters: the peer gets no more
		if r := e.next(); r.Op != rdma.OpReceive || r.Status != rdma.StatusSuccess {
			t.Fatalf("%+v", r)
		}
	}
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), []byte("heard"))
	if r := victim.want(rdma.OpReceive, 6, rdma.StatusSuccess); string(e.buf[48:53]) != "heard" {
		t.Errorf("%+v %q", r, e.buf[48:53])
	}
}

// Lengths that a peer announces cost no memory.
//
// Source: [RFC 5042 §6.4], [RFC 5044 §8]
func TestSecurity13Claims(t *testing.T) {
	const peers = 16
	type pair struct {
		e *side
		p *rawPeer
	}
	var all []pair
	for range peers {
		e, p := connectReads(t, CRCOff, readyWrite)
		all = append(all, pair{e, p})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range all {
		c.e.recv(1, 0, 8)
		c.p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, false), []byte("begun"))
		c.p.fpdu(readSegment(1), (&frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 1<<32 - 1, SourceSTag: uint32(c.e.at(0).Token), SourceTO: c.e.at(0).Addr}).AppendTo(nil))
		c.p.send([]byte{0xFF, 0xFF, 0x41, 0x43}) // a frame that never arrives
		if got := c.p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x01, 1}) {
			t.Errorf("Terminate %x", got)
		}
		c.e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > peers*2*readBufferSize {
		t.Errorf("%d bytes allocated for the claims of %d peers", used, peers)
	}
}
