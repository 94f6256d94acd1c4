package softrdma

import (
	"sync"

	"lwio/rdma"
)

// QueuePair is the part of a queue pair that does not depend on the transport: its
// configuration, state and queues. A provider's queue pair embeds it.
//
// The states follow each other in one direction; only PairReserved may become PairIdle
// again:
//
//	PairIdle ─► PairReserved ─► PairConnected ─► PairDisconnected ─► PairClosed
//
// Source: [ND QueuePair]
type QueuePair struct {
	Domain    *Domain
	Config    rdma.QueuePairConfig
	Queues    Queues
	Initiator InitiatorQueue
	Receives  ReceiveQueue
	State     PairState // guarded by the lock of Initiator

	self Transport
	once sync.Once // of Close
}

// Transport is a provider's queue pair.
type Transport interface {
	Driver
	// Close ends the connection and completes all requests with StatusCanceled.
	Close() error
	// Connection returns the connection, or nil if there never was one.
	Connection() Conn
	// EndAll completes all requests with StatusCanceled. Precondition: the connection, if
	// there was one, has ended.
	EndAll()
}

// Init makes the queue pair self of the domain. resume has the meaning of
// ReceiveQueue.Init.
//
// Errors: the errors of CheckPair; StatusInvalidHandle once the domain or a queue is
// closed.
func (q *QueuePair) Init(d *Domain, cfg rdma.QueuePairConfig, self Transport, resume func()) error {
	const op = "create queue pair"
	queues, err := d.CheckPair(&cfg, op)
	if err != nil {
		return err
	}
	q.Domain, q.Config, q.Queues, q.self = d, cfg, queues, self
	q.Initiator.Init(d, &cfg, queues.Initiator)
	q.Receives.Init(d, &cfg, queues, resume)
	if err := d.Add(QueuePairs, self, op); err != nil {
		return err
	}
	if !queues.Attach(self) {
		self.Close()
		return d.Error(op, "", rdma.StatusInvalidHandle, nil)
	}
	return nil
}

// Of reports whether the queue pair belongs to d.
func (q *QueuePair) Of(d *Domain) bool { return q.Domain == d }

// Reserve takes an unconnected queue pair for a connector.
//
// Errors: StatusInvalidHandle once the queue pair is closed, StatusConnectionActive if a
// connector uses it or has used it.
func (q *QueuePair) Reserve(op string) error {
	q.Initiator.Lock()
	defer q.Initiator.Unlock()
	switch q.State {
	case PairIdle:
		q.State = PairReserved
		return nil
	case PairClosed:
		return q.Domain.Error(op, "queue pair", rdma.StatusInvalidHandle, nil)
	}
	return q.Domain.Error(op, "queue pair", rdma.StatusConnectionActive, nil)
}

// Unreserve makes a reserved queue pair idle again.
func (q *QueuePair) Unreserve() {
	q.Initiator.Lock()
	defer q.Initiator.Unlock()
	q.State.Unreserve()
}

// PostReceive queues receives.
func (q *QueuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	return q.Receives.Post(reqs)
}

// TrimIdle returns the pages of the posted receives to the system.
func (q *QueuePair) TrimIdle() { q.Receives.TrimIdle() }

// Sleepers returns the number of Wait calls that need the connection's own goroutine to
// make progress.
func (q *QueuePair) Sleepers() int {
	n := q.Queues.Receive.Sleepers()
	if q.Queues.Initiator != q.Queues.Receive {
		n += q.Queues.Initiator.Sleepers()
	}
	return n
}

// Disconnected makes the queue pair refuse requests, and waits until no goroutine sends.
func (q *QueuePair) Disconnected() {
	q.Initiator.Lock()
	defer q.Initiator.Unlock()
	q.State = max(q.State, PairDisconnected)
	q.Initiator.AwaitSendingLocked()
}

// Close disconnects, ends all requests and waits until their memory is no longer
// accessed.
func (q *QueuePair) Close() error {
	q.once.Do(func() {
		q.Initiator.Lock()
		q.State = PairClosed
		q.Initiator.Unlock()
		if c := q.self.Connection(); c != nil {
			c.Disconnect()
			<-c.Finished()
		}
		q.self.EndAll()
		q.Receives.Close()
		q.Queues.Detach(q.self)
		q.Domain.Remove(QueuePairs, q.self)
	})
	return nil
}

// PairState is the state of a queue pair. The lock of the queue pair guards it.
type PairState uint8

// The states of a queue pair, in their order; only PairReserved may become PairIdle
// again.
const (
	PairIdle         PairState = iota // not connected, may become so
	PairReserved                      // a connector uses it
	PairConnected                     // takes requests
	PairDisconnected                  // refuses requests; never connects again
	PairClosed
)

// Unreserve makes a reserved queue pair idle again, and reports whether it was reserved.
func (s *PairState) Unreserve() bool {
	if *s != PairReserved {
		return false
	}
	*s = PairIdle
	return true
}

// Queues are the queues of a queue pair.
type Queues struct {
	Receive, Initiator *CompletionQueue
	Shared             *SharedQueue // or nil
}

// CheckPair checks the configuration of a queue pair and finds its queues.
//
// Errors: StatusInvalidParameterN, as [rdma.Adapter] defines.
//
// Source: [ND Adapter.CreateQueuePair], [ND Adapter.CreateQueuePairWithSrq]
func (d *Domain) CheckPair(cfg *rdma.QueuePairConfig, op string) (Queues, error) {
	refuse := func(n int) (Queues, error) {
		return Queues{}, d.Error(op, "", rdma.StatusInvalidParameterN(n), nil)
	}
	qs := Queues{
		Receive:   d.CompletionQueueOf(cfg.ReceiveCQ),
		Initiator: d.CompletionQueueOf(cfg.InitiatorCQ),
		Shared:    d.sharedQueueOf(cfg.SharedReceive),
	}
	switch {
	case qs.Receive == nil:
		return refuse(2)
	case qs.Initiator == nil:
		return refuse(3)
	case cfg.SharedReceive != nil && qs.Shared == nil:
		return refuse(4)
	}
	limits := []struct{ param, value, most int }{
		{5, cfg.ReceiveDepth, MaxQueueDepth},
		{6, cfg.InitiatorDepth, MaxQueueDepth},
		{7, cfg.MaxReceiveSGE, MaxSGE},
		{8, cfg.MaxInitiatorSGE, MaxSGE},
		{9, cfg.InlineSize, MaxInline},
	}
	if qs.Shared != nil {
		limits = []struct{ param, value, most int }{
			{6, cfg.InitiatorDepth, MaxQueueDepth},
			{7, cfg.MaxInitiatorSGE, MaxSGE},
			{8, cfg.InlineSize, MaxInline},
		}
	}
	for _, c := range limits {
		if c.value < 0 || c.value > c.most {
			return refuse(c.param)
		}
	}
	return qs, nil
}

// Attach attaches a queue pair to its queues. It fails once a queue is closed or has
// overrun; the caller then calls Detach.
func (qs *Queues) Attach(p Driver) bool {
	if qs.Shared != nil {
		qs.Shared.attach()
	}
	return qs.Receive.Attach(p) && qs.Initiator.Attach(p)
}

// Detach detaches the queue pair.
func (qs *Queues) Detach(p Driver) {
	qs.Receive.Detach(p)
	qs.Initiator.Detach(p)
	if qs.Shared != nil {
		qs.Shared.detach()
	}
}
