package rdmaconn

import (
	"errors"
	"os"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"

	"pgregory.net/rapid"
)

// change is the message by which the server changes the grant by n.
func change(n int) wire.StatusResponse {
	return wire.StatusResponse{Information: uint32(int32(n)), Status: wire.NotifyCredit}
}

// A change of the grant is answered with one CREDIT for a growth, and one for each credit that is
// given up. After random changes and requests, each credit is free, in use or not granted, and there
// is a receive for each message that may come.
//
// Source: [LWIO §Credits], [OP-65], [OP-67], [OP-69] to [OP-73]
func TestCreditsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		c, pair := newFake(most, base.Interrupt, 0)
		grant, busy := most, []*Request{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				set := c.TakeCredits(rapid.IntRange(1, 8).Draw(t, "take"))
				for s := c.NextCredit(&set); s != nil; s = c.NextCredit(&set) {
					busy = append(busy, s)
				}
			case 1:
				for n := rapid.IntRange(0, len(busy)).Draw(t, "release"); n > 0; n-- {
					c.Release(busy[n-1])
					busy = append(busy[:n-1], busy[n:]...)
				}
			case 2:
				n := rapid.IntRange(1-grant, most).Draw(t, "change")
				if err := c.credits.delta(change(n)); err != nil {
					t.Fatal(err)
				}
				for _, s := range busy { // CREDIT takes the entries that are released
					c.Release(s)
				}
				busy = busy[:0]
				answerCredits(t, c, pair, n)
				grant = min(grant+n, most)
			}
			granted, free := c.Credits()
			if granted != grant || free != grant-len(busy) || len(c.credits.idle) != most-grant {
				t.Fatalf("%d granted, %d free, %d idle, want a grant of %d with %d in use", granted, free, len(c.credits.idle), grant, len(busy))
			}
			if c.receives.posted < grant+1 || c.receives.posted+len(c.receives.spare) != most+1 {
				t.Fatalf("%d receives for %d messages, %d spare", c.receives.posted, grant, len(c.receives.spare))
			}
		}
	})
}

// answerCredits answers the CREDIT messages of a change by n as the server does.
func answerCredits(t *rapid.T, c *Conn, pair *fakePair, n int) {
	list := pair.sent()
	if want := max(-n, 1); len(list) != want {
		t.Fatalf("%d CREDIT messages for a change by %d", len(list), n)
	}
	d := delivery{r: &c.answers}
	for _, h := range list {
		if h.Opcode != wire.OpCredit {
			t.Fatalf("%+v", h)
		}
		a := messageFor(h, 0, 0)
		if n < 0 {
			a.Status = wire.NotifyCredit
			if !c.credits.retires(a.Cookie) {
				t.Fatal("the receive of a credit that is given up would be posted again")
			}
			c.receives.retire(uint64(c.receives.posted))
		} else if c.credits.retires(a.Cookie) {
			t.Fatal("the receive of a growth would not be posted again")
		}
		if err := c.answers.deliver(a, nil, &d); err != nil {
			t.Fatal(err)
		}
	}
	d.handOver()
}

// A change of the grant that breaks the rules ends the connection.
//
// Source: [OP-69] to [OP-73]
func TestCreditChangesThatBreakTheRules(t *testing.T) {
	for name, do := range map[string]func(c *Conn) error{
		"more than are granted": func(c *Conn) error { return c.credits.delta(change(-4)) },
		"not a change":          func(c *Conn) error { return c.credits.delta(wire.StatusResponse{Information: 1}) },
		"before the last one is over": func(c *Conn) error {
			for c.table.free.take() != nil {
			}
			return errors.Join(c.credits.delta(change(-1)), c.credits.delta(change(-1)))
		},
		"a refused growth": func(c *Conn) error {
			if err := c.credits.delta(change(1)); err != nil {
				return nil
			}
			d := delivery{r: &c.answers}
			return c.answers.deliver(messageFor(c.qp.(*fakePair).sent()[0], 0, 5), nil, &d)
		},
	} {
		c, _ := newFake(4, base.Interrupt, 0)
		if err := do(c); !errors.Is(err, base.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change that arrives before the answer to AUTH was inspected waits for it.
//
// Source: [OP-69]
func TestCreditChangeBeforeFirstGrant(t *testing.T) {
	c, pair := newFake(4, base.Interrupt, 0)
	k := &c.credits
	k.open = false
	if err := k.delta(change(-2)); err != nil || len(pair.sent()) != 0 {
		t.Fatal("it did not wait", err)
	}
	if err := k.granted(4); err != nil {
		t.Fatal(err)
	}
	if n := len(pair.sent()); n != 2 {
		t.Errorf("%d CREDIT messages", n)
	}
	k.open, k.early = false, nil
	if err := errors.Join(k.delta(change(1)), k.delta(change(1))); !errors.Is(err, base.ErrProtocol) {
		t.Error(err)
	}
}

// One credit is kept for INTERRUPT while there are two or more, so that a poller can always ask for
// its wake-up. With one credit requests are not polled.
//
// Source: [OP-93f]
func TestCreditForWakeUp(t *testing.T) {
	c, pair := newFake(3, base.Adaptive, 0)
	if granted, free := c.Credits(); granted != 3 || free != 2 || !c.status.enabled.Load() {
		t.Fatalf("%d granted, %d free", granted, free)
	}
	if c.credits.arm() {
		t.Error("INTERRUPT without a polled request")
	}
	o := postRead(t, c, 1)
	pair.sent()
	if !c.credits.arm() || c.credits.arm() {
		t.Fatal("INTERRUPT is not sent once")
	}
	list := pair.sent()
	if len(list) != 1 || list[0].Opcode != wire.OpInterrupt || list[0].Credits != 1 {
		t.Fatalf("%+v", list)
	}
	// The server takes credits back while the entry is in use.
	if err := c.credits.delta(change(-2)); err != nil {
		t.Fatal(err)
	}
	o.request.block.Store(1)
	if c.answers.scan() != 1 {
		t.Fatal("the read is not answered")
	}
	for _, h := range pair.sent() {
		answer(t, c, messageFor(h, 0, wire.NotifyCredit))
	}
	if c.status.enabled.Load() || freeRequestsOf(c) != 0 {
		t.Error("requests are still polled, or the entry was given up while it was in use")
	}
	answer(t, c, messageFor(list[0], 0, deviceBusy))
	if granted, free := c.Credits(); granted != 1 || free != 1 {
		t.Errorf("%d granted, %d free", granted, free)
	}
	if postRead(t, c, 1); pair.sent()[0].Flags&wire.FlagInterrupt == 0 {
		t.Error("a request is polled without a credit for INTERRUPT")
	}
}

func freeRequestsOf(c *Conn) int {
	_, free := c.Credits()
	return free
}

// INTERRUPT is answered with success or DEVICE_BUSY; every other status ends the connection.
//
// Source: [LWIO §Wakeup]
func TestWakeUpRefused(t *testing.T) {
	c, pair := newFake(3, base.Polling, 0)
	postRead(t, c, 1)
	pair.sent()
	if !c.credits.arm() {
		t.Fatal("no INTERRUPT")
	}
	d := delivery{r: &c.answers}
	if err := c.answers.deliver(messageFor(pair.sent()[0], 0, 7), nil, &d); !errors.Is(err, base.ErrProtocol) {
		t.Error(err)
	}
}

// A goroutine takes the entry for INTERRUPT and finds nothing in flight. Another goroutine posts a
// polled request before the entry is returned, and finds the entry in use. INTERRUPT is sent for
// that request.
//
// Source: [LWIO §Wakeup], [OP-93a]
func TestWakeUpOfRequestPostedWhileEntryIsInUse(t *testing.T) {
	c, pair := newFake(4, base.Polling, 0)
	answered := postRead(t, c, 1)
	pair.sent()
	c.send.mu.Lock()
	armed := make(chan bool, 1)
	go func() { armed <- c.credits.arm() }()
	waitFor(t, c, func() bool { return isRunning("postWakeUp") })
	c.credits.mu.Lock() // in the way of the return of the entry
	answered.request.block.Store(1)
	if c.answers.scan() != 1 {
		t.Error("the read is not answered")
	}
	c.send.mu.Unlock()
	waitFor(t, c, func() bool { return isRunning("returnWakeUp") || len(armed) > 0 })
	postRead(t, c, 1)
	if c.credits.arm() {
		t.Error("the entry was taken twice")
	}
	c.credits.mu.Unlock()
	if !<-armed {
		t.Error("the request is without a wake-up")
	}
	if list := pair.sent(); len(list) != 2 || list[1].Opcode != wire.OpInterrupt || list[1].Credits != 1 {
		t.Errorf("%+v", list)
	}
}

// An entry for INTERRUPT that is the last credit becomes an ordinary one also if no INTERRUPT was
// sent in it.
//
// Source: [OP-93f]
func TestLastCreditAfterWakeUpWithoutMessage(t *testing.T) {
	c, pair := newFake(2, base.Polling, 0)
	o := postRead(t, c, 1)
	s := c.credits.takeWakeUp()
	o.request.block.Store(1)
	if c.answers.scan() != 1 || s == nil {
		t.Fatal("the read is not answered")
	}
	pair.sent()
	if err := c.credits.delta(change(-1)); err != nil {
		t.Fatal(err)
	}
	for _, h := range pair.sent() {
		answer(t, c, messageFor(h, 0, wire.NotifyCredit))
	}
	if c.credits.sendWakeUp(s) || freeRequestsOf(c) != 1 {
		t.Errorf("%d credits are free", freeRequestsOf(c))
	}
}

// A connection whose only credit is held by an unanswered INTERRUPT ends. While another credit is
// granted, an INTERRUPT may wait for any time.
//
// Source: [OP-93a], [OP-93f], [OP-110]
func TestUnansweredWakeUpEndsConnection(t *testing.T) {
	c, pair := newFake(2, base.Polling, 0)
	o := postRead(t, c, 1)
	if pair.sent(); !c.credits.arm() {
		t.Fatal("no INTERRUPT")
	}
	pair.sent()
	o.request.block.Store(1)
	if c.answers.scan() != 1 {
		t.Fatal("the read is not answered")
	}
	watch := func() {
		for range 3 * WatchParts {
			c.Watch()
		}
	}
	if watch(); c.IsDown() {
		t.Fatalf("with two credits: %v", c.err)
	}
	if err := c.credits.delta(change(-1)); err != nil {
		t.Fatal(err)
	}
	for _, h := range pair.sent() {
		answer(t, c, messageFor(h, 0, wire.NotifyCredit))
	}
	if watch(); !errors.Is(c.err, os.ErrDeadlineExceeded) {
		t.Errorf("with one credit: %v", c.err)
	}
}

// RequirePoller asks for a wake-up if the poller sleeps. It does nothing on a connection that is down.
//
// Source: [LWIO §Wakeup], [OP-115]
func TestRequirePollerAsksForWakeUp(t *testing.T) {
	c, pair := newFake(3, base.Polling, 0)
	postRead(t, c, 1)
	pair.sent()
	c.progress.asleep.Store(true)
	if !c.RequirePoller() {
		t.Fatal(c.Err())
	}
	if list := pair.sent(); len(list) != 1 || list[0].Opcode != wire.OpInterrupt {
		t.Errorf("%+v", list)
	}
	c.Fail(errFake)
	c.ReleasePoller()
	if c.RequirePoller() {
		t.Error("a connection that is down has a poller")
	}
}
