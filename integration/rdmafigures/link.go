package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// fabrics are the providers under test, and where they listen.
var fabrics = map[string]struct {
	provider func() rdma.Provider
	local    rdma.Addr
}{
	"shm":            {func() rdma.Provider { return shm.New(nil) }, rdma.Addr{Fabric: shm.Name}},
	"shm, blocking":  {func() rdma.Provider { return shm.New(&shm.Config{BlockingWait: true}) }, rdma.Addr{Fabric: shm.Name}},
	"iwarp":          {func() rdma.Provider { return iwarp.New(nil) }, loopback},
	"iwarp, CRC off": {func() rdma.Provider { return iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff}) }, loopback},
}

var loopback = rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0"))

// The parts of a link's memory: the word that a poller of this side watches, the
// one that is written to the peer's, messages, and then the buffers.
const (
	watchedWord = 0
	sourceWord  = 64
	message     = 128
	incoming    = 2048
	buffers     = 4096
)

const (
	depth   = 64 // of each queue
	limit   = patience
	noSleep = 4096 // empty polls between two looks of a poller at other goroutines
)

// link is this side's end of the connection, and how it waits.
type link struct {
	*side
	ctx     context.Context
	adapter rdma.Adapter
	cq      rdma.CompletionQueue
	qp      rdma.QueuePair
	conn    rdma.Connector
	mem     []byte
	region  rdma.MemoryRegion
	peer    rdma.RemoteAddr // of the first byte of the peer's memory

	results [depth]rdma.Result
	posts   int // since the last request with a result
	done    int // results of requests that are no messages
	unheard int // messages that came and were not asked for yet
	send    [1]rdma.Request
	receive [1]rdma.ReceiveRequest
}

// withLink makes a benchmark of two connected sides.
func withLink(bench func(*link) error) func(*side) error {
	return func(s *side) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		l := &link{side: s, ctx: ctx}
		if err := l.open(); err != nil {
			return err
		}
		err := l.connect()
		if err == nil {
			err = bench(l)
		}
		return errors.Join(err, l.adapter.Close())
	}
}

// open makes everything but the connection.
func (l *link) open() error {
	fabric, ok := fabrics[l.Provider]
	if !ok {
		return fmt.Errorf("there is no provider %q", l.Provider)
	}
	var err error
	if l.adapter, err = fabric.provider().OpenAdapter(l.ctx, fabric.local.AddrPort.Addr()); err != nil {
		return err
	}
	mem, err := l.adapter.Alloc(l.ctx, buffers+l.Size*l.Buffers)
	if err != nil {
		return err
	}
	l.mem = mem.Bytes()
	for i := range l.mem {
		l.mem[i] = byte(i)
	}
	clear(l.mem[:buffers])
	if l.region, err = l.adapter.RegisterMemory(l.ctx, l.mem, rdma.AccessRemoteWrite); err != nil {
		return err
	}
	if l.cq, err = l.adapter.CreateCompletionQueue(4 * depth); err != nil {
		return err
	}
	l.qp, err = l.adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: l.cq, InitiatorCQ: l.cq, ReceiveDepth: depth, InitiatorDepth: depth,
		MaxReceiveSGE: 1, MaxInitiatorSGE: 1, InlineSize: 8,
	})
	if err != nil {
		return err
	}
	size := min(max(l.Size, 8), buffers-incoming)
	l.receive[0] = rdma.ReceiveRequest{SGL: l.sge(incoming, size)}
	l.send[0] = rdma.Request{Op: rdma.OpSend, SGL: l.sge(message, min(size, incoming-message))}
	for range depth / 2 {
		if _, err := l.qp.PostReceive(l.receive[:]); err != nil {
			return err
		}
	}
	l.conn, err = l.adapter.CreateConnector()
	return err
}

// connect connects the two sides; each tells the other where its memory is. The
// active one then sends the first message.
func (l *link) connect() error {
	at := l.region.RemoteAddr()
	own := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, at.Addr), uint32(at.Token))
	shake := l.accept
	if l.Active {
		shake = l.dial
	}
	if err := shake(own); err != nil {
		return err
	}
	data, err := l.conn.PrivateData()
	if err != nil || len(data) < len(own) {
		return fmt.Errorf("private data of %d bytes: %w", len(data), err)
	}
	l.peer.Addr, l.peer.Token = binary.LittleEndian.Uint64(data), rdma.RemoteToken(binary.LittleEndian.Uint32(data[8:]))
	return l.inPeace(l.Active)
}

// inPeace sends a message or waits for one, asleep whatever the job says, as what is
// not measured need not be fast.
func (l *link) inPeace(say bool) error {
	defer func(was bool) { l.Sleep = was }(l.Sleep)
	l.Sleep = true
	if say {
		return l.tell()
	}
	return l.hear()
}

func (l *link) dial(own []byte) error {
	var addr rdma.Addr
	if err := l.side.peer(&addr); err != nil {
		return err
	}
	if err := l.conn.Bind(l.ctx, rdma.Addr{}); err != nil {
		return err
	}
	if err := l.conn.Connect(l.ctx, l.qp, addr, rdma.ReadLimits{}, own); err != nil {
		return err
	}
	return l.conn.CompleteConnect(l.ctx)
}

func (l *link) accept(own []byte) error {
	listener, err := rdma.Listen(l.ctx, l.adapter, fabrics[l.Provider].local, 1)
	if err != nil {
		return err
	}
	defer listener.Close()
	addr, err := listener.LocalAddr()
	if err != nil {
		return err
	}
	if err := l.ready(addr); err != nil {
		return err
	}
	if err := listener.ConnectionRequest(l.ctx, l.conn); err != nil {
		return err
	}
	return l.conn.Accept(l.ctx, l.qp, rdma.ReadLimits{}, own)
}

// sge names part of the memory.
func (l *link) sge(off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: l.region, Offset: off, Length: n}}
}

// at names part of the peer's memory.
func (l *link) at(off int) rdma.RemoteAddr {
	return rdma.RemoteAddr{Addr: l.peer.Addr + uint64(off), Token: l.peer.Token}
}

// wait takes results, one at least, in the way of the job.
func (l *link) wait() error {
	for i := 1; ; i++ {
		n, err := l.take()
		if n > 0 || err != nil {
			return err
		}
		switch {
		case l.Sleep:
			if err := l.cq.Wait(l.ctx, rdma.NotifyAny); err != nil {
				return err
			}
		case i%noSleep == 0:
			runtime.Gosched()
		}
	}
}

// take takes the results that are there, which must be successes, and counts them.
func (l *link) take() (int, error) {
	n, err := l.cq.Poll(l.results[:])
	for i := range l.results[:n] {
		switch r := &l.results[i]; {
		case r.Status != rdma.StatusSuccess:
			return 0, fmt.Errorf("%v: %w", r.Op, r.Status)
		case r.Op == rdma.OpReceive:
			l.unheard++
		case r.Op == rdma.OpSend: // of one message in many, for its slot
		default:
			l.done++
		}
	}
	return n, err
}

// post posts one request, silently but for one of each half a queue.
func (l *link) post(reqs *[1]rdma.Request) error {
	reqs[0].Flags |= rdma.FlagSilentSuccess
	if l.posts++; l.posts >= depth/2 {
		reqs[0].Flags &^= rdma.FlagSilentSuccess
		l.posts = 0
	}
	_, err := l.qp.Post(reqs[:])
	return err
}

// tell sends a message, hear waits for one and posts the receive for another.
func (l *link) tell() error { return l.post(&l.send) }

func (l *link) hear() error {
	for l.unheard == 0 {
		if err := l.wait(); err != nil {
			return err
		}
	}
	l.unheard--
	_, err := l.qp.PostReceive(l.receive[:])
	return err
}
