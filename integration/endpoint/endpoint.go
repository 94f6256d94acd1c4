// Package endpoint is a queue pair with the objects that one goroutine needs to use it
// step by step: post, wait for the result, go on. It is for tests against other programs,
// where clarity counts more than speed.
package endpoint

import (
	"context"
	"fmt"

	"lwio/rdma"
)

// depth is the number of outstanding requests of this side.
const depth = 16

// Shape is the memory of an endpoint.
type Shape struct {
	// Receives is how many receives are posted, each for ReceiveSize bytes.
	Receives, ReceiveSize int
	// Data is the size of the memory for everything else, in bytes.
	Data int
}

// Endpoint is an unconnected queue pair, its completion queue and its memory, in
// which the peer may read and write. It is not safe for concurrent use.
type Endpoint struct {
	// QP is the queue pair, for a connector to connect.
	QP     rdma.QueuePair
	shape  Shape
	cq     rdma.CompletionQueue
	memory rdma.Memory
	region rdma.MemoryRegion
	// arrived are receives that completed during a wait for another result.
	arrived []rdma.Result
}

// New makes an endpoint with its receives posted. The caller closes it.
func New(ctx context.Context, a rdma.Adapter, s Shape) (*Endpoint, error) {
	e := &Endpoint{shape: s}
	if err := e.make(ctx, a); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Endpoint) make(ctx context.Context, a rdma.Adapter) (err error) {
	if e.cq, err = a.CreateCompletionQueue(depth + e.shape.Receives); err != nil {
		return err
	}
	if e.memory, err = a.Alloc(ctx, e.shape.Data+e.shape.Receives*e.shape.ReceiveSize); err != nil {
		return err
	}
	const access = rdma.AccessRemoteRead | rdma.AccessRemoteWrite
	if e.region, err = a.RegisterMemory(ctx, e.memory.Bytes(), access); err != nil {
		return err
	}
	e.QP, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: e.shape.Receives, InitiatorDepth: depth,
		MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		return err
	}
	for i := range e.shape.Receives {
		if err := e.postReceive(i); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connection and frees everything.
func (e *Endpoint) Close() {
	if e.QP != nil {
		e.QP.Close()
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

// Bytes is part of the data memory.
func (e *Endpoint) Bytes(at, n int) []byte { return e.memory.Bytes()[at : at+n : at+n] }

// SGE names part of the data memory.
func (e *Endpoint) SGE(at, n int) []rdma.SGE {
	return []rdma.SGE{{Region: e.region, Offset: at, Length: n}}
}

// RemoteAddr is the address of a byte of the data memory for the peer.
func (e *Endpoint) RemoteAddr(at int) rdma.RemoteAddr {
	r := e.region.RemoteAddr()
	r.Addr += uint64(at)
	return r
}

func (e *Endpoint) postReceive(i int) error {
	at := e.shape.Data + i*e.shape.ReceiveSize
	_, err := e.QP.PostReceive([]rdma.ReceiveRequest{{ID: uint64(i), SGL: e.SGE(at, e.shape.ReceiveSize)}})
	return err
}

// Do posts one request and waits for its result.
func (e *Endpoint) Do(ctx context.Context, r rdma.Request) error {
	if _, err := e.QP.Post([]rdma.Request{r}); err != nil {
		return fmt.Errorf("post %v: %w", r.Op, err)
	}
	for {
		res, err := e.next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%v: %w", r.Op, err)
		case res.Op == rdma.OpReceive:
			e.arrived = append(e.arrived, res)
		case res.Status != rdma.StatusSuccess:
			return fmt.Errorf("%v: %w", r.Op, res.Status)
		default:
			return nil
		}
	}
}

// Receive waits for a message, posts its receive again and returns a copy.
func (e *Endpoint) Receive(ctx context.Context) ([]byte, error) {
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
	i := int(res.ID)
	message := append([]byte(nil), e.Bytes(e.shape.Data+i*e.shape.ReceiveSize, res.Bytes)...)
	return message, e.postReceive(i)
}

// next waits for a result.
func (e *Endpoint) next(ctx context.Context) (rdma.Result, error) {
	var res [1]rdma.Result
	for {
		if n, err := e.cq.Poll(res[:]); n == 1 || err != nil {
			return res[0], err
		}
		if err := e.cq.Wait(ctx, rdma.NotifyAny); err != nil {
			return res[0], err
		}
	}
}
