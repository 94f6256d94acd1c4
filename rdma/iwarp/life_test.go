package iwarp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Source: [ND Connector.Disconnect], [ND Connector.NotifyDisconnect]
func TestDisconnectFlushesBothSides(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 8, sge: 1, buf: 4096, context: 5})
	for i := range 3 {
		client.recv(uint64(i), 0, 8)
		server.recv(uint64(i), 0, 8)
	}
	client.post(rdma.Request{Op: rdma.OpSend, ID: 9, SGL: client.sgl(0, 8)})
	if err := client.con.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.want(rdma.OpSend, 9, rdma.StatusSuccess)
	server.want(rdma.OpReceive, 0, rdma.StatusSuccess)
	for i := range 3 {
		client.want(rdma.OpReceive, uint64(i), rdma.StatusCanceled)
		if i > 0 {
			server.want(rdma.OpReceive, uint64(i), rdma.StatusCanceled)
		}
	}
	for _, e := range []*side{client, server} {
		e.wantDone()
		if err := e.con.Err(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}}); rdma.StatusOf(err) != rdma.StatusConnectionInvalid {
			t.Error(err)
		}
		e.recv(77, 0, 1)
		e.want(rdma.OpReceive, 77, rdma.StatusCanceled)
		if err := e.con.Disconnect(t.Context()); rdma.StatusOf(err) != rdma.StatusConnectionInvalid {
			t.Error(err)
		}
		e.qp.Close()
		if _, err := e.qp.PostReceive([]rdma.ReceiveRequest{{}}); rdma.StatusOf(err) != rdma.StatusInvalidHandle {
			t.Error(err)
		}
	}
}

// All requests end when the peer resets the connection.
//
// Source: [RFC 5040 §6.2], [ND §9 NdReceiveConnClosed]
func TestResetByPeerEndsAllRequests(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.recv(1, 0, 8)
	if err := p.nc.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	p.nc.Close()
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	e.wantDone()
	if err := e.con.Err(); rdma.StatusOf(err) != rdma.StatusConnectionAborted {
		t.Error(err)
	}
}

// A peer that does not read stalls the queue, but never a post. Close does not wait long
// for such a peer.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Flush], [RFC 5042 §6.4]
func TestStalledPeerDoesNotBlockPosts(t *testing.T) {
	for _, end := range []string{"disconnect", "reset", "close", "flush", "region"} {
		t.Run(end, func(t *testing.T) {
			e, p := connectRawTo(t, &Config{CRC: CRCOff, DrainTimeout: 10 * time.Millisecond})
			mr, err := e.a.RegisterMemory(t.Context(), make([]byte, 8<<20), rdma.AccessLocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			posted := uint64(0)
			for ; ; posted++ {
				_, err := e.qp.Post([]rdma.Request{{Op: rdma.OpWrite, ID: posted, SGL: []rdma.SGE{{Region: mr, Length: 8 << 20}}}})
				if rdma.StatusOf(err) == rdma.StatusNoMoreEntries {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			first, last := rdma.StatusCanceled, rdma.StatusCanceled
			switch end {
			case "disconnect":
				e.con.Disconnect(t.Context())
			case "close":
				e.qp.Close()
			case "reset":
				if err := p.nc.(*net.TCPConn).SetLinger(0); err != nil {
					t.Fatal(err)
				}
				p.nc.Close()
				first = rdma.StatusIOTimeout
			case "flush":
				// The request in progress is not flushed; it ends with the connection.
				e.qp.Flush()
				p.nc.Close()
				first = rdma.StatusIOTimeout
			case "region":
				mr.Close()
				go func() { _, _ = p.nc.Read(make([]byte, 1<<20)) }()
				e.con.Close()
			}
			done := uint64(0)
			for done < posted {
				r := e.next()
				if r.ID != done {
					t.Fatalf("result %d instead of %d", r.ID, done)
				}
				done++
				switch {
				case r.Status == rdma.StatusSuccess:
				case first != last && r.Status == first:
					first = last
				case r.Status != last:
					if end != "region" || r.Status != rdma.StatusAccessViolation {
						t.Errorf("result %d: %v", r.ID, r.Status)
					}
				}
			}
		})
	}
}

// Queued requests end in order, and the connection continues.
//
// Source: [ND QueuePair.Flush], [ND §9 NdReceiveFlushQP]
func TestFlushCancelsQueuedRequests(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 8, sge: 1, buf: 4096})
	server.recv(1, 0, 8)
	server.recv(2, 0, 8)
	server.qp.Flush()
	server.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	server.want(rdma.OpReceive, 2, rdma.StatusCanceled)
	server.recv(3, 0, 8)
	client.post(rdma.Request{Op: rdma.OpSend, ID: 4, SGL: client.sgl(0, 8)})
	server.want(rdma.OpReceive, 3, rdma.StatusSuccess)
	client.want(rdma.OpSend, 4, rdma.StatusSuccess)

	idle := newSide(t, nil, shape{depth: 8, sge: 1, buf: 4096})
	idle.recv(1, 0, 8)
	idle.qp.Flush()
	idle.want(rdma.OpReceive, 1, rdma.StatusCanceled)
}

// A flush does not change the receive that is being filled.
//
// Source: [ND QueuePair.Flush]
func TestFlushKeepsReceiveInProgress(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.recv(1, 0, 8)
	e.recv(2, 0, 8)
	part := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, false)
	p.fpdu(part, []byte("1234"))
	qp := e.qp.(*queuePair)
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		qp.Receives.Lock()
		begun = qp.Receives.CurrentLocked() != nil
		qp.Receives.Unlock()
	}
	e.qp.Flush()
	part.DDP, part.MO = part.DDP|frame.DDPLast, 4
	p.fpdu(part, []byte("5678"))
	if r := e.want(rdma.OpReceive, 1, rdma.StatusSuccess); r.Bytes != 8 {
		t.Errorf("%+v", r)
	}
	e.want(rdma.OpReceive, 2, rdma.StatusCanceled)
}

// The slots of silent requests are free again when a later request has its result.
//
// Source: [ND QueuePair.Send]
func TestSilentSuccessHasNoResult(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: 4096})
	write := rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: client.sgl(0, 8), Remote: server.at(0)}
	for range 5 {
		client.post(write, write, write)
		loud := write
		loud.Flags, loud.ID = 0, 3
		client.post(loud)
		client.want(rdma.OpWrite, 3, rdma.StatusSuccess)
	}
	client.post(write, write, write, write)
	if n, err := client.qp.Post([]rdma.Request{write}); n != 0 || rdma.StatusOf(err) != rdma.StatusNoMoreEntries {
		t.Error(n, err)
	}
}

// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Receive]
func TestPostRefusesInvalidRequests(t *testing.T) {
	client, _ := connect(t, nil, nil, shape{depth: 4, sge: 2, buf: 4096})
	one := client.sgl(0, 1)
	for name, c := range map[string]struct {
		req    rdma.Request
		status rdma.Status
	}{
		"read":           {rdma.Request{Op: rdma.OpRead}, rdma.StatusInvalidDeviceRequest},
		"bind":           {rdma.Request{Op: rdma.OpBind, Flags: rdma.FlagAllowRead}, rdma.StatusInvalidParameter},
		"invalidate":     {rdma.Request{Op: rdma.OpInvalidate}, rdma.StatusInvalidParameter},
		"flags of bind":  {rdma.Request{Op: rdma.OpBind}, rdma.StatusInvalidParameterN(6)},
		"only cached":    {rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached}, rdma.StatusInvalidParameterMix},
		"receive":        {rdma.Request{Op: rdma.OpReceive}, rdma.StatusInvalidParameter},
		"flags of send":  {rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagAllowRead}, rdma.StatusInvalidParameterN(4)},
		"flags of write": {rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSolicitEvent}, rdma.StatusInvalidParameterN(6)},
		"too many":       {rdma.Request{Op: rdma.OpSend, SGL: append(append(one, one...), one...)}, rdma.StatusDataOverrun},
		"too long":       {rdma.Request{Op: rdma.OpSend, SGL: client.sgl(0, softrdma.MaxTransfer+1)}, rdma.StatusBufferOverflow},
		"inline":         {rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: make([]byte, 1025)}, rdma.StatusBufferOverflow},
		"outside":        {rdma.Request{Op: rdma.OpSend, SGL: client.sgl(4096, 1)}, rdma.StatusAccessViolation},
	} {
		n, err := client.qp.Post([]rdma.Request{{Op: rdma.OpWrite, SGL: nil}, c.req})
		client.want(rdma.OpWrite, 0, rdma.StatusSuccess)
		if n != 1 || rdma.StatusOf(err) != c.status {
			t.Errorf("%s: %d %v, want %v", name, n, err, c.status)
		}
		if c.status == rdma.StatusNotSupported && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Regions are closed while a peer writes to them. No byte changes after Close has
// returned, and the connection ends.
//
// Source: [ND MemoryRegion.Deregister], [RFC 5042 §6.3.3]
func TestRegionCloseIsFinal(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		cfg := &Config{CRC: crc}
		client, server := connect(t, cfg, cfg, shape{depth: 16, sge: 1, buf: 1 << 20})
		target := make([]byte, 1<<20)
		mr, err := server.a.RegisterMemory(t.Context(), target, rdma.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			rs := make([]rdma.Result, 16)
			for i := byte(1); ; i++ {
				n := 1 << (10 + i%11)
				if _, err := client.qp.Post([]rdma.Request{{Op: rdma.OpWrite, SGL: client.sgl(0, n), Remote: mr.RemoteAddr()}}); err != nil {
					return
				}
				if n, err := waitFor(client.cq, rs); err != nil || n == 0 {
					return
				}
				client.buf[0] = i
			}
		}()
		for range 20 {
			time.Sleep(time.Millisecond) // lets some writes arrive; their number does not matter
		}
		mr.Close()
		after := bytes.Clone(target)
		server.wantDone()
		server.con.Close()
		if !bytes.Equal(after, target) {
			t.Error("written after Close")
		}
		var term *TerminateError
		if err := server.con.Err(); !errors.As(err, &term) || (frame.Fault{Layer: term.Layer, Kind: term.Type, Code: term.Code}) != frame.FaultSTag {
			t.Error(err)
		}
		wg.Wait()
	}
}

// All calls on closed objects fail.
//
// Source: [ND Adapter]
func TestUseAfterCloseFails(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: 4096})
	for _, e := range []*side{client, server} {
		for range 2 {
			if err := e.a.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			for _, c := range []io.Closer{e.con, e.qp, e.cq, e.mr} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		_, e1 := e.a.CreateCompletionQueue(1)
		_, e2 := e.a.CreateConnector()
		_, e3 := e.a.CreateListener()
		_, e4 := e.a.RegisterMemory(t.Context(), []byte{1}, 0)
		_, e5 := e.a.Alloc(t.Context(), 1)
		_, e6 := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}})
		_, e7 := e.qp.PostReceive([]rdma.ReceiveRequest{{}})
		for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e.con.Bind(t.Context(), rdma.Addr{}), e.cq.Wait(t.Context(), rdma.NotifyAny)} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
}

// Attempts end with their context and with Close.
//
// Source: [ND Overlapped.CancelOverlappedRequests]
func TestCanceledConnectLeavesTheQueuePair(t *testing.T) {
	block := make(chan struct{})
	addr := rawListener(t, func(p *rawPeer) { <-block })
	t.Cleanup(func() { close(block) })
	client := newSide(t, nil, shape{depth: 4, sge: 1, buf: 4096})
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- client.con.Connect(ctx, client.qp, addr, rdma.ReadLimits{}, nil) }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, rdma.StatusCanceled) {
		t.Error(err)
	}
	began := make(chan struct{})
	go func() {
		close(began)
		result <- client.con.Connect(context.Background(), client.qp, addr, rdma.ReadLimits{}, nil)
	}()
	<-began
	client.con.Close()
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
