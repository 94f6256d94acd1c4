package softrdma

import "lwio/rdma"

// PairState says what a queue pair can do. The lock of the queue pair guards it.
type PairState uint8

// The states of a queue pair, which it goes through in this order; only PairReserved may
// become PairIdle again.
const (
	PairIdle         PairState = iota // not connected, may become so
	PairReserved                      // a connector is at work with it
	PairConnected                     // takes requests
	PairDisconnected                  // will never take any again
	PairClosed
)

// Reserve takes an unconnected queue pair of d for a connector.
//
// Errors: StatusInvalidHandle once it is closed, StatusConnectionActive where it is, or was,
// a connector's.
func (s *PairState) Reserve(d *Domain, op string) error {
	switch *s {
	case PairIdle:
		*s = PairReserved
		return nil
	case PairClosed:
		return d.Error(op, "queue pair", rdma.StatusInvalidHandle, nil)
	}
	return d.Error(op, "queue pair", rdma.StatusConnectionActive, nil)
}

// Unreserve takes that back, if the queue pair has not become anything else since.
func (s *PairState) Unreserve() bool {
	if *s != PairReserved {
		return false
	}
	*s = PairIdle
	return true
}

// Queues are what a queue pair is made with.
type Queues struct {
	Receive, Initiator *CompletionQueue
	Shared             *SharedQueue // or nil
}

// CheckPair checks the shape of a queue pair and finds its queues.
//
// Errors: StatusInvalidParameterN, as [rdma.Adapter] says.
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

// Attach ties a queue pair to its queues. It fails once one of them is closed, or
// has overrun; Detach is right then too.
func (qs *Queues) Attach(p Driver) bool {
	if qs.Shared != nil {
		qs.Shared.attach()
	}
	return qs.Receive.Attach(p) && qs.Initiator.Attach(p)
}

// Detach takes that back.
func (qs *Queues) Detach(p Driver) {
	qs.Receive.Detach(p)
	qs.Initiator.Detach(p)
	if qs.Shared != nil {
		qs.Shared.detach()
	}
}
