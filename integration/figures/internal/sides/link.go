package sides

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"lwio/rdma"
)

// The parts of a link's memory: the word that a poller of this side watches, the
// source of the peer's word, messages, and then the buffers.
const (
	watchedWord = 0
	sourceWord  = 64
	message     = 128
	incoming    = 2048
	buffers     = 4096
)

const (
	depth = 64   // of each queue
	yield = 4096 // empty polls after which a poller yields to other goroutines
)

// link is this side's end of the connection.
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
	arrived int // messages that arrived and were not received yet
	send    [1]rdma.Request
	receive [1]rdma.ReceiveRequest
}

// withLink makes a benchmark of two connected sides.
func withLink(bench func(*link) error) func(*side) error {
	return func(s *side) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	fabric, ok := providers[l.Via]
	if !ok {
		return fmt.Errorf("there is no provider %q", l.Via)
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

// connect connects the two sides; each sends the address of its memory to the other. The
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
	return l.asleep(l.Active)
}

// asleep sends a message or waits for one without polling, even in a job that polls. It is
// for the parts of a run that are not measured.
func (l *link) asleep(send bool) error {
	defer func(was bool) { l.Spin = was }(l.Spin)
	l.Spin = false
	if send {
		return l.sendMessage()
	}
	return l.receiveMessage()
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
	listener, err := rdma.Listen(l.ctx, l.adapter, providers[l.Via].local, 1)
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

// wait takes at least one result, asleep or polling as the job says.
func (l *link) wait() error {
	for i := 1; ; i++ {
		n, err := l.take()
		if n > 0 || err != nil {
			return err
		}
		switch {
		case !l.Spin:
			if err := l.cq.Wait(l.ctx, rdma.NotifyAny); err != nil {
				return err
			}
		case i%yield == 0:
			runtime.Gosched()
		}
	}
}

// take takes the present results and counts them. A failed result is an error.
func (l *link) take() (int, error) {
	n, err := l.cq.Poll(l.results[:])
	for i := range l.results[:n] {
		switch r := &l.results[i]; {
		case r.Status != rdma.StatusSuccess:
			return 0, fmt.Errorf("%v: %w", r.Op, r.Status)
		case r.Op == rdma.OpReceive:
			l.arrived++
		case r.Op == rdma.OpSend: // one message in many has a result
		default:
			l.done++
		}
	}
	return n, err
}

// post posts one request. One request of each half queue has a result; the others are
// silent.
func (l *link) post(reqs *[1]rdma.Request) error {
	reqs[0].Flags |= rdma.FlagSilentSuccess
	if l.posts++; l.posts >= depth/2 {
		reqs[0].Flags &^= rdma.FlagSilentSuccess
		l.posts = 0
	}
	_, err := l.qp.Post(reqs[:])
	return err
}

// sendMessage sends a message.
func (l *link) sendMessage() error { return l.post(&l.send) }

// receiveMessage waits for a message and posts the receive for another.
func (l *link) receiveMessage() error {
	for l.arrived == 0 {
		if err := l.wait(); err != nil {
			return err
		}
	}
	l.arrived--
	_, err := l.qp.PostReceive(l.receive[:])
	return err
}
