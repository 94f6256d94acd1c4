package rping

import (
	"context"
	"errors"
	"fmt"
	"net"

	"lwio/rdma"
)

// depth is the number of outstanding requests of each queue.
const depth = 16

// The layout of the one region of an end, in bytes: what is sent, what is
// received, two buffers of data.
const (
	sendAt    = 0
	receiveAt = infoSize
	sourceAt  = 4096
	sinkAt    = sourceAt + 65536
	regionEnd = sinkAt + 65536
)

// end is one side's objects: a queue pair, its completion queue, its memory.
// One goroutine uses it.
type end struct {
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	memory rdma.Memory
	region rdma.MemoryRegion
	// arrived are receives that came while something else was waited for.
	arrived []rdma.Result
}

// newEnd makes an end with its first receive posted.
func newEnd(ctx context.Context, a rdma.Adapter) (*end, error) {
	e := &end{}
	if err := e.make(ctx, a); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *end) make(ctx context.Context, a rdma.Adapter) (err error) {
	if e.cq, err = a.CreateCompletionQueue(2 * depth); err != nil {
		return err
	}
	if e.memory, err = a.Alloc(ctx, regionEnd); err != nil {
		return err
	}
	const access = rdma.AccessRemoteRead | rdma.AccessRemoteWrite
	if e.region, err = a.RegisterMemory(ctx, e.memory.Bytes(), access); err != nil {
		return err
	}
	e.qp, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: depth, InitiatorDepth: depth,
		MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		return err
	}
	return e.postReceive()
}

// close frees what there is.
func (e *end) close() {
	if e.qp != nil {
		e.qp.Close()
	}
	if e.region != nil {
		e.region.Close()
	}
	if e.memory != nil {
		e.memory.Close()
	}
	if e.cq != nil {
		e.cq.Close()
	}
}

func (e *end) sge(at, n int) []rdma.SGE {
	return []rdma.SGE{{Region: e.region, Offset: at, Length: n}}
}

func (e *end) bytes(at, n int) []byte { return e.region.Bytes()[at : at+n : at+n] }

// at is where the peer finds a part of the region.
func (e *end) at(offset int) rdma.RemoteAddr {
	r := e.region.RemoteAddr()
	r.Addr += uint64(offset)
	return r
}

func (e *end) postReceive() error {
	_, err := e.qp.PostReceive([]rdma.ReceiveRequest{{SGL: e.sge(receiveAt, infoSize)}})
	return err
}

// send sends a message and waits until it is sent.
func (e *end) send(ctx context.Context, i info) error {
	i.put(e.bytes(sendAt, infoSize))
	return e.do(ctx, rdma.Request{Op: rdma.OpSend, SGL: e.sge(sendAt, infoSize)})
}

// do posts one request and waits for its result.
func (e *end) do(ctx context.Context, r rdma.Request) error {
	if _, err := e.qp.Post([]rdma.Request{r}); err != nil {
		return fmt.Errorf("post %v: %w", r.Op, err)
	}
	for {
		res, err := e.next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%v: %w", r.Op, err)
		case res.Op == rdma.OpReceive && res.Status == rdma.StatusSuccess:
			e.arrived = append(e.arrived, res)
		case res.Op == rdma.OpReceive:
			// Flushed with the request that is waited for.
		case res.Status != rdma.StatusSuccess:
			return fmt.Errorf("%v: %w", r.Op, res.Status)
		default:
			return nil
		}
	}
}

// receive waits for a message, and posts the next receive.
func (e *end) receive(ctx context.Context) ([]byte, error) {
	var res rdma.Result
	if len(e.arrived) > 0 {
		res, e.arrived = e.arrived[0], e.arrived[1:]
	} else {
		var err error
		if res, err = e.next(ctx); err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
	}
	if res.Status != rdma.StatusSuccess {
		return nil, fmt.Errorf("receive: %w", res.Status)
	}
	message := append([]byte(nil), e.bytes(receiveAt, res.Bytes)...)
	return message, e.postReceive()
}

// next waits for a result.
func (e *end) next(ctx context.Context) (rdma.Result, error) {
	var res [1]rdma.Result
	for {
		if n, err := e.cq.Poll(res[:]); n == 1 || err != nil {
			return res[0], err
		}
		if err := e.cq.Notify(ctx, rdma.NotifyAny); err != nil {
			return res[0], err
		}
	}
}

// ended tells whether an error is the orderly end of the connection by the peer.
func ended(c rdma.Connector, err error) bool {
	if !errors.Is(err, rdma.StatusCanceled) {
		return false
	}
	select {
	case <-c.Done():
		return errors.Is(c.Err(), net.ErrClosed)
	default:
		return false
	}
}

// because adds to an error why the connection ended, if it did.
func because(c rdma.Connector, err error) error {
	if err == nil || c.Err() == nil {
		return err
	}
	return errors.Join(err, c.Err())
}
