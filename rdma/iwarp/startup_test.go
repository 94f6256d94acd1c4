package iwarp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Each kind of request gets the right reply, byte by byte.
//
// Source: [RFC 5044 §7.1.2], [RFC 6581 §9.1], [RFC 6581 §9.2]
func TestRepliesMatchTheRequest(t *testing.T) {
	reply := func(rest string) []byte { return append([]byte(frame.ReplyKey), decodeHex(t, rest)...) }
	for name, c := range map[string]struct {
		cfg  Config
		req  frame.Startup
		want []byte
	}{
		"revision 1":       {Config{CRC: CRCOff}, frame.Startup{Revision: 1}, reply("00010002 abcd")},
		"wants CRC":        {Config{CRC: CRCOff}, frame.Startup{Revision: 1, CRC: true}, reply("40010002 abcd")},
		"we want CRC":      {Config{}, frame.Startup{Revision: 1}, reply("40010002 abcd")},
		"revision 2 plain": {Config{CRC: CRCOff}, frame.Startup{Revision: 2}, reply("00020002 abcd")},
		"enhanced":         {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{Inbound: 5, Outbound: 7}}, reply("10020006 00000000 abcd")},
		"unnegotiated":     {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{Inbound: 0x3FFF, Outbound: 0x3FFF}}, reply("10020006 3fff3fff abcd")},
		"ready by write":   {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRSend: true, RTRWrite: true, RTRRead: true}}, reply("10020006 80008000 abcd")},
		"ready by send":    {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRSend: true, RTRRead: true}}, reply("10020006 c0000000 abcd")},
		"markers":          {Config{CRC: CRCOff, Markers: true}, frame.Startup{Revision: 1}, reply("80010002 abcd")},
		"peer's markers":   {Config{CRC: CRCOff}, frame.Startup{Revision: 1, Markers: true}, reply("00010002 abcd")},
		"ready by reads":   {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRRead: true, Outbound: 1}}, reply("10020006 80014000 abcd")},
		"ready by read":    {Config{CRC: CRCOff}, frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRRead: true}}, reply("10020006 80008000 abcd")},
	} {
		t.Run(name, func(t *testing.T) {
			server, l, addr := listenSide(t, &c.cfg, shape{depth: 4, sge: 1, buf: 4096})
			p := dialRaw(t, addr)
			go func() {
				if l.ConnectionRequest(context.Background(), server.con) == nil {
					_ = server.con.Accept(context.Background(), server.qp, rdma.ReadLimits{}, []byte{0xAB, 0xCD})
				}
			}()
			p.send(c.req.AppendTo(nil))
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(p.nc, got); err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%x %v, want %x", got, err, c.want)
			}
			p.nc.Close()
		})
	}
}

// Bytes that are not a request end their connection. The listener continues.
//
// Source: [RFC 5044 §7.1.2 rules 5 to 9], [RFC 5042 §6.4]
func TestBadRequestEndsOnlyItsConnection(t *testing.T) {
	cfg := &Config{RequestTimeout: 200 * time.Millisecond}
	listening, l, addr := listenSide(t, cfg, shape{depth: 4, sge: 1, buf: 4096})
	good := (&frame.Startup{Revision: 1, Private: []byte("abc")}).AppendTo(nil)
	bad := map[string][]byte{
		"silence":    nil,
		"garbage":    bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 10),
		"zeros":      make([]byte, 100),
		"reply":      (&frame.Startup{Reply: true, Revision: 1}).AppendTo(nil),
		"revision 3": append(append([]byte(frame.RequestKey), 0, 3), 0, 0),
		"revision 0": (&frame.Startup{Revision: 0}).AppendTo(nil),
		"too long":   append(append([]byte(frame.RequestKey), 0, 1), 0xFF, 0xFF),
	}
	for i := 1; i < len(good); i++ {
		bad["half "+string(rune('0'+i))] = good[:i]
	}
	var peers []*rawPeer
	for _, b := range bad {
		p := dialRaw(t, addr)
		p.send(b)
		peers = append(peers, p)
	}
	for _, p := range peers {
		p.wantGone()
	}
	server := listening.con
	requested := make(chan error, 1)
	go func() { requested <- l.ConnectionRequest(t.Context(), server) }()
	for came := false; !came; { // repeats an attempt that a busy machine delays
		p := dialRaw(t, addr)
		_, _ = p.nc.Write(good)
		late := make(chan struct{})
		go func() {
			defer close(late)
			_, _ = io.Copy(io.Discard, p.nc)
		}()
		select {
		case err := <-requested:
			if came = true; err != nil {
				t.Fatal(err)
			}
		case <-late:
		}
	}
	if got, err := server.PrivateData(); err != nil || string(got) != "abc" {
		t.Errorf("%q %v", got, err)
	}
}

// connectorOf makes another connector of the side's adapter.
func connectorOf(t *testing.T, s *side) rdma.Connector {
	t.Helper()
	c, err := s.a.CreateConnector()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A silent connection above the limit replaces the oldest one.
//
// Source: [RFC 5042 §6.4]
func TestSilentConnectionReplacesTheOldest(t *testing.T) {
	_, _, addr := listenSide(t, &Config{MaxStartups: 3, RequestTimeout: time.Hour}, shape{depth: 4, sge: 1, buf: 4096})
	var silent []*rawPeer
	for range 4 {
		silent = append(silent, dialRaw(t, addr))
	}
	silent[0].wantGone()
}

// Requests above the backlog are rejected. Requests that wait when the listener closes
// are rejected too.
//
// Source: [ND Listener.Listen]
func TestRequestsAboveTheBacklogAreRefused(t *testing.T) {
	server := newSide(t, nil, shape{depth: 4, sge: 1, buf: 4096})
	l, err := rdma.Listen(t.Context(), server.a, rdma.IPAddr(Name, netip.AddrPortFrom(loopback, 0)), 2)
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := l.LocalAddr()
	request := (&frame.Startup{Revision: 1}).AppendTo(nil)
	replies := make(chan bool, 3)
	for range 3 {
		p := dialRaw(t, addr)
		p.send(request)
		go func() {
			s, err := readStartup(p.nc, true)
			p.nc.Close()
			replies <- err == nil && s.Reject
		}()
	}
	if !<-replies {
		t.Error("not rejected")
	}
	l.Close()
	for range 2 {
		if !<-replies {
			t.Error("not rejected at the end")
		}
	}
}

// rawListener is a passive peer that sends and receives bytes.
func rawListener(t *testing.T, serve func(p *rawPeer)) rdma.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.SetDeadline(time.Now().Add(testTimeout))
			serve(&rawPeer{t: t, nc: nc})
			nc.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	addr := fabricAddr(l.Addr())
	return addr
}

// Connect fails on a reply that is not an acceptance.
//
// Source: [RFC 5044 §7.1.2 rules 3 to 7], [RFC 6581 §9.2]
func TestConnectFailsOnBadReply(t *testing.T) {
	ok := frame.Startup{Reply: true, Revision: 2, CRC: true, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRWrite: true}}
	with := func(f func(*frame.Startup)) []byte {
		s := ok
		e := *ok.Enhanced
		s.Enhanced = &e
		f(&s)
		return s.AppendTo(nil)
	}
	for name, c := range map[string]struct {
		reply  []byte
		status rdma.Status
		cause  error
	}{
		"nothing":      {nil, rdma.StatusConnectionRefused, nil},
		"half":         {ok.AppendTo(nil)[:21], rdma.StatusConnectionRefused, nil},
		"clash":        {(&frame.Startup{Revision: 2}).AppendTo(nil), rdma.StatusConnectionAborted, frame.ErrStartupClash},
		"garbage":      {bytes.Repeat([]byte("x"), 40), rdma.StatusConnectionAborted, frame.ErrStartupKey},
		"revision 1":   {(&frame.Startup{Reply: true, Revision: 1}).AppendTo(nil), rdma.StatusConnectionAborted, errReplyMismatch},
		"not enhanced": {(&frame.Startup{Reply: true, Revision: 2}).AppendTo(nil), rdma.StatusConnectionAborted, errReplyMismatch},
		"no ready":     {with(func(s *frame.Startup) { s.Enhanced.RTRWrite, s.Enhanced.RTRRead = false, true }), rdma.StatusConnectionAborted, errNoReady},
		"reject":       {with(func(s *frame.Startup) { s.Reject, s.Private = true, []byte("why") }), rdma.StatusConnectionRefused, errRejected},
	} {
		t.Run(name, func(t *testing.T) {
			terminate := make(chan []byte, 1)
			addr := rawListener(t, func(p *rawPeer) {
				if _, err := readStartup(p.nc, false); err != nil {
					t.Error(err)
				}
				p.crc = true
				p.send(c.reply)
				if name == "no ready" {
					_, b, _ := p.receive()
					terminate <- b
				}
			})
			client := newSide(t, &Config{Revision: 2}, shape{depth: 4, sge: 1, buf: 4096})
			err := client.con.Connect(t.Context(), client.qp, addr, rdma.ReadLimits{}, nil)
			if rdma.StatusOf(err) != c.status || c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v, want %v, %v", err, c.status, c.cause)
			}
			if name == "reject" {
				if got, err := client.con.PrivateData(); string(got) != "why" || err != nil {
					t.Errorf("%q %v", got, err)
				}
			}
			if name == "no ready" {
				if got := <-terminate; !bytes.Equal(got, []byte{0x20, 7, 0, 0}) {
					t.Errorf("Terminate %x", got)
				}
			}
		})
	}
}

// A peer that drops revision 2 gets a request of revision 1.
//
// Source: [RFC 6581 §10]
func TestDialFallsBackToRevision1(t *testing.T) {
	sent := make(chan []byte, 1)
	addr := rawListener(t, func(p *rawPeer) {
		s, err := readStartup(p.nc, false)
		if err != nil || s.Revision == 2 {
			return
		}
		p.send((&frame.Startup{Reply: true, Revision: 1, Private: []byte("old")}).AppendTo(nil))
		p.crc = true
		_, b, _ := p.receive()
		sent <- b
		p.wantEnd()
	})
	client := newSide(t, nil, shape{depth: 4, sge: 1, buf: 4096})
	c, err := rdma.Dial(t.Context(), client.a, client.qp, addr, rdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	copy(client.buf, "hello")
	client.post(rdma.Request{Op: rdma.OpSend, ID: 1, SGL: client.sgl(0, 5)})
	client.want(rdma.OpSend, 1, rdma.StatusSuccess)
	if got := <-sent; string(got) != "hello" {
		t.Errorf("%q", got)
	}
	if got, _ := c.PrivateData(); string(got) != "old" {
		t.Errorf("%q", got)
	}
	c.Close()
}

// Without a ready-to-receive message, the requests of the passive side wait for the first
// frame.
//
// Source: [RFC 5044 §7.1.2 rule 4]
func TestPassiveRequestsWaitForFirstFrame(t *testing.T) {
	e, p, accepted := serveRaw(t, nil, &frame.Startup{Revision: 1})
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	e.post(rdma.Request{Op: rdma.OpSend, ID: 1, SGL: e.sgl(0, 4)})
	if n, _ := e.cq.Poll(make([]rdma.Result, 1)); n != 0 {
		t.Error("sent before anything was received")
	}
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 0, 0, true), nil)
	e.want(rdma.OpSend, 1, rdma.StatusSuccess)
	if s, b, err := p.receive(); err != nil || len(b) != 4 || s != frame.UntaggedSegment(frame.OpSend, 0, 1, 0, true) {
		t.Error(s, b, err)
	}
}

// A Flush does not send requests that are posted during it. They also wait for the first
// frame.
//
// Source: [RFC 5044 §7.1.2 rule 4]
func TestFlushSendsNothingBeforeFirstFrame(t *testing.T) {
	e, p, accepted := serveRaw(t, nil, &frame.Startup{Revision: 1})
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	qp.Initiator.Sending = true // as Flush does
	qp.Initiator.Unlock()
	e.post(rdma.Request{Op: rdma.OpSend, ID: 1, SGL: e.sgl(0, 4)})
	qp.c.tx.pump()
	if n, _ := e.cq.Poll(make([]rdma.Result, 1)); n != 0 {
		t.Error("sent before anything was received")
	}
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 0, 0, true), nil)
	e.want(rdma.OpSend, 1, rdma.StatusSuccess)
}

// A peer that ends the attempt after the reply, or is silent, makes Accept fail. The
// queue pair stays usable.
//
// Source: [ND Connector.Accept], [ND §9 NdConnClose]
func TestMissingFirstMessageFailsAccept(t *testing.T) {
	req := &frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRWrite: true}}
	t.Run("gone", func(t *testing.T) {
		e, p, accepted := serveRaw(t, nil, req)
		e.recv(1, 0, 1)
		p.nc.Close()
		err := <-accepted
		if !errors.Is(err, rdma.StatusConnectionRefused) || !errors.Is(err, rdma.StatusConnectionAborted) {
			t.Error(err)
		}
		if n, _ := e.cq.Poll(make([]rdma.Result, 1)); n != 0 {
			t.Error("the queue pair was flushed")
		}
		if err := e.qp.(*queuePair).Reserve("test"); err != nil {
			t.Error(err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		_, p, accepted := serveRaw(t, &Config{ReadyTimeout: time.Millisecond}, req)
		if err := <-accepted; rdma.StatusOf(err) != rdma.StatusIOTimeout {
			t.Error(err)
		}
		p.wantGone()
	})
}
