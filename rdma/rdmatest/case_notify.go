package rdmatest

import (
	"context"
	"fmt"

	"lwio/rdma"
)

var notifyCases = []Case{
	{Name: "notify/releases-all", Source: "[ND CompletionQueue.Notify], [ND ndcq]", run: notifyReleasesAll},
	{Name: "notify/once-per-result", Source: "[ND CompletionQueue.Notify]", run: notifyOnce},
	{Name: "notify/pending-result", Source: "[ND CompletionQueue.Notify]", run: notifyPending},
	{Name: "notify/no-lost-wake-up", Source: "[ND CompletionQueue.Notify]", run: noLostWakeUp},
	{Name: "notify/solicited", Source: "[ND Op flags SEND_AND_SOLICIT_EVENT]", run: notifySolicited},
	{Name: "notify/solicited-becomes-any", Source: "[ND CompletionQueue.Notify]", run: solicitedBecomesAny},
	{Name: "notify/failure-satisfies-solicited", Source: "[ND CompletionQueue.Notify]", run: failureSatisfiesSolicited},
	{Name: "notify/errors", Source: "[ND CompletionQueue.Notify]", run: notifyErrors},
	{Name: "notify/close", Source: "[ND CompletionQueue.Notify]", run: notifyClose},
	{Name: "notify/silent", Source: "[ND Op flags SILENT_SUCCESS]", run: notifySilent},
}

// notifyReleasesAll checks that one result ends all waits that it satisfies.
func notifyReleasesAll(r *rig) {
	active, passive := r.pair(shape{})
	var calls []*call
	for range 4 {
		calls = append(calls, r.notify(passive.rcq, rdma.NotifyAny))
	}
	passive.receive(1, nil)
	active.post(rdma.Request{Op: rdma.OpSend})
	for i, c := range calls {
		if err := c.wait(); err != nil {
			r.Errorf("notification %d: %v", i, err)
		}
	}
}

// notifyOnce checks that a result that has ended a wait does not end a later one, whether
// it was polled or not.
func notifyOnce(r *rig) {
	active, passive := r.pair(shape{})
	for _, poll := range []bool{false, true} {
		first := r.notify(passive.rcq, rdma.NotifyAny)
		passive.receive(1, nil)
		active.post(rdma.Request{Op: rdma.OpSend})
		r.ok("notify", first.wait())
		if poll {
			passive.received()
		}
		r.notify(passive.rcq, rdma.NotifyAny).canceled()
		if !poll {
			passive.received()
		}
	}
}

// notifyPending checks that a result that arrived without a Wait satisfies the next Wait,
// once.
func notifyPending(r *rig) {
	e := r.end(r.adapter(), shape{})
	for range 10 {
		r.empty("receives", e.rcq)
		e.receive(1, nil)
		e.receive(2, nil)
		r.ok("flush", e.qp.Flush())
		r.ok("notify", e.rcq.Wait(r.ctx(), rdma.NotifyAny))
		for range 2 {
			if res := r.spin(e.rcq); res.Status != rdma.StatusCanceled {
				r.Errorf("flushed receive: %+v", res)
			}
		}
	}
}

// noLostWakeUp exchanges messages. Each side polls once and then waits, so a lost wake-up
// stops the exchange.
func noLostWakeUp(r *rig) {
	const rounds = 2000
	active, passive := r.pair(shape{})
	active.receive(0, nil)
	passive.receive(0, nil)
	pong := r.beginMany("pong", func(ctx context.Context) error {
		for range rounds {
			if err := passive.await(ctx); err != nil {
				return err
			}
			if err := passive.send(nil); err != nil {
				return err
			}
		}
		return nil
	})
	ping := r.beginMany("ping", func(ctx context.Context) error {
		for i := range rounds {
			if err := active.send(nil); err != nil {
				return err
			}
			if err := active.await(ctx); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		return nil
	})
	r.ok("ping", ping.wait())
	r.ok("pong", pong.wait())
}

// await waits for one message, and posts the receive for the next one.
func (e *end) await(ctx context.Context) error {
	for {
		if err := e.rcq.Wait(ctx, rdma.NotifyAny); err != nil {
			return err
		}
		var res [4]rdma.Result
		n, err := e.rcq.Poll(res[:])
		if err != nil {
			return err
		}
		if n > 0 {
			_, err := e.qp.PostReceive([]rdma.ReceiveRequest{{}})
			return err
		}
	}
}

func notifySolicited(r *rig) {
	active, passive := r.pair(shape{})
	n := r.notify(passive.rcq, rdma.NotifySolicited)
	passive.receive(1, nil)
	passive.receive(2, nil)
	active.post(rdma.Request{Op: rdma.OpSend})
	if res := r.spin(passive.rcq); res.Solicited {
		r.Error("a plain send is marked as solicited")
	}
	n.canceled()

	n = r.notify(passive.rcq, rdma.NotifySolicited)
	active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSolicitEvent})
	r.ok("notify", n.wait())
	if res := passive.received(); !res.Solicited {
		r.Error("a solicited send is not marked")
	}
	r.notify(passive.rcq, rdma.NotifySolicited).canceled()
}

func solicitedBecomesAny(r *rig) {
	active, passive := r.pair(shape{})
	solicited := r.notify(passive.rcq, rdma.NotifySolicited)
	anyResult := r.notify(passive.rcq, rdma.NotifyAny)
	passive.receive(1, nil)
	active.post(rdma.Request{Op: rdma.OpSend})
	r.ok("NotifyAny", anyResult.wait())
	r.ok("NotifySolicited beside it", solicited.wait())
}

func failureSatisfiesSolicited(r *rig) {
	e := r.end(r.adapter(), shape{})
	n := r.notify(e.rcq, rdma.NotifySolicited)
	e.receive(1, nil)
	r.ok("flush", e.qp.Flush())
	r.ok("notify", n.wait())
}

// notifyErrors checks that NotifyErrors waits for the failure of the queue, not of a
// request.
func notifyErrors(r *rig) {
	active, passive := r.pair(shape{})
	n := r.notify(passive.rcq, rdma.NotifyErrors)
	passive.receive(1, nil)
	passive.receive(2, nil)
	active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSolicitEvent})
	r.spin(passive.rcq)
	r.ok("flush", passive.qp.Flush())
	r.spin(passive.rcq)
	n.canceled()
}

func notifyClose(r *rig) {
	a := r.adapter()
	cq, err := a.CreateCompletionQueue(4)
	r.ok("create completion queue", err)
	var calls []*call
	for _, kind := range []rdma.NotifyKind{rdma.NotifyErrors, rdma.NotifyAny, rdma.NotifySolicited} {
		calls = append(calls, r.notify(cq, kind))
	}
	r.closeNow("completion queue", cq)
	for _, c := range calls {
		r.fails("notify on a queue that closes", c.wait(), rdma.StatusCanceled)
	}
}

// notifySilent checks that a request without a result ends no Wait.
func notifySilent(r *rig) {
	active, passive := r.pair(shape{})
	n := r.notify(active.icq, rdma.NotifyAny)
	passive.receive(1, nil)
	passive.receive(2, nil)
	active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess})
	passive.received()
	n.canceled()

	n = r.notify(active.icq, rdma.NotifyAny)
	active.post(rdma.Request{Op: rdma.OpSend})
	r.ok("notify", n.wait())
}
