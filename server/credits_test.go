package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
)

// conn returns the server's side of a connection. The credits may change now.
func (v *env) conn() *conn {
	v.t.Helper()
	v.creditsMayChange()
	conns := v.e.conns.authenticated()
	if len(conns) == 0 {
		v.t.Fatal("no connection")
	}
	return conns[0]
}

// creditsMayChange returns when no connection is sending its answer to AUTH, or a delta. A client may
// see the message before the server has noted that the message is sent.
func (v *env) creditsMayChange() {
	v.t.Helper()
	eventually(v.t, "each message about credits is sent", func() bool {
		return !slices.ContainsFunc(v.e.conns.authenticated(), func(c *conn) bool { return c.credits.snapshot().sending })
	})
}

// creditSnapshot is a copy of a creditState.
type creditSnapshot struct {
	grant, delta, extra      int
	sending, refused, paused bool
	began                    time.Time
}

func (k *creditState) snapshot() creditSnapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	return creditSnapshot{k.grant, k.delta, k.extra, k.sending, k.refused, k.paused, k.began}
}

// hungry returns a message of a client that has n requests.
func hungry(n int) wire.Header {
	h := controlHeader(wire.OpCancel, 0xFFFF)
	h.SetPending(n)
	return h
}

// grantEnv returns an env and a client with 4 credits of at most 16.
func grantEnv(t *testing.T, l Limits) (*env, *rawClient) {
	l.Credits, l.MaxCredits = 4, 16
	v := newEnv(t, envConfig{limits: l})
	return v, v.client()
}

// wantDelta demands a delta of the credits.
func (c *rawClient) wantDelta(n int) {
	c.t.Helper()
	want := wire.StatusResponse{Information: uint32(int32(n)), Status: wire.NotifyCredit}
	if s := c.reply(); s != want {
		c.t.Fatalf("got %+v, want a change by %d", s, n)
	}
}

// A client that has more requests than credits gets more; it returns those that it does not
// use, and gets no more until it gave some up. An idle one gives credits up, one message for
// each.
//
// Source: [LWIO §Credits] [OP-64] [OP-67] [OP-70] to [OP-74c] [OP-74a] [OP-74b] [LWIO claim 24]
func TestCreditTransactions(t *testing.T) {
	v, c := grantEnv(t, Limits{})
	s := v.conn()
	want := func(grant, extra int) {
		t.Helper()
		eventually(t, "the change is over", func() bool { k := s.credits.snapshot(); return k.delta == 0 && !k.sending })
		if k := s.credits.snapshot(); k.grant != grant || k.extra != extra || int(v.e.credits.sum.Held()) != grant+extra {
			t.Fatalf("grant %d, %d extra, %d of the budget; want %d, %d, %d", k.grant, k.extra, int(v.e.credits.sum.Held()), grant, extra, grant+extra)
		}
	}
	c.send(hungry(10), nil)
	c.wantDelta(6)
	c.reply()
	c.send(hungry(16), nil) // no second one before this is answered
	c.reply()
	c.want(ntstatus.Success, 0, wire.NewCredit(2), nil)
	want(8, 2)
	c.send(hungry(16), nil) // nor after some were not used
	c.reply()
	want(8, 2)

	for range 30 { // however often it is looked at
		v.e.balance(time.Now().Add(idleTime - time.Second))
	}
	want(8, 2)
	v.e.balance(time.Now().Add(idleTime))
	c.wantDelta(-4)
	for n := int32(-4); n < 0; n++ {
		c.want(ntstatus.Status(wire.NotifyCredit), 0, wire.NewCredit(n), nil)
	}
	want(4, 2)
	c.send(hungry(7), nil)
	c.wantDelta(3)
	c.reply()
	c.want(ntstatus.Success, 0, wire.NewCredit(0), nil)
	want(7, 0)
	if n := v.e.count.credits.Load(); n != 7 {
		t.Errorf("%d credits are counted", n)
	}
	c.connector.Close()
	eventually(t, "the connection is gone", v.deserted)
	if int(v.e.credits.sum.Held()) != 0 || v.e.count.credits.Load() != 0 {
		t.Errorf("%d credits left, %d counted", int(v.e.credits.sum.Held()), v.e.count.credits.Load())
	}
}

// A CREDIT that does not answer the change in progress ends the connection.
//
// Source: [LWIO §Credits] [OP-69] [OP-70] [OP-71] [OP-72]
func TestUnexpectedCreditEndsConnection(t *testing.T) {
	for _, x := range []struct {
		name   string
		begin  func(v *env, c *rawClient)
		answer []int32
	}{
		{"nothing was asked", func(*env, *rawClient) {}, []int32{0}},
		{"gives up unasked", func(*env, *rawClient) {}, []int32{-1}},
		{"more unused than granted", grows, []int32{7}},
		{"gives up a growth", grows, []int32{-1}},
		{"answers a growth twice", grows, []int32{0, 0}},
		{"uses a shrink", shrinks, []int32{0}},
		{"in the wrong order", shrinks, []int32{-1}},
		{"too many", shrinks, []int32{-2, -1, 0}},
		{"one twice", shrinks, []int32{-2, -2}},
		{"far out", shrinks, []int32{-1 << 31}},
	} {
		t.Run(x.name, func(t *testing.T) {
			v, c := grantEnv(t, Limits{})
			x.begin(v, c)
			for i, n := range x.answer {
				c.send(wire.NewCredit(n), nil)
				if i < len(x.answer)-1 {
					c.reply()
				}
			}
			c.wantCut()
			eventually(t, "the violation is counted", func() bool { return v.e.count.cut.Load() == 1 })
		})
	}
}

func grows(_ *env, c *rawClient) {
	c.send(hungry(10), nil)
	c.wantDelta(6)
	c.reply()
}

func shrinks(v *env, c *rawClient) {
	v.conn().shrink(2)
	c.wantDelta(-2)
}

// A client that does not answer a change is cut off after StallTimeout.
func TestUnansweredCreditChangeCutsConnection(t *testing.T) {
	v, c := grantEnv(t, Limits{StallTimeout: time.Hour})
	shrinks(v, c)
	v.e.balance(time.Now().Add(59 * time.Minute))
	c.want(ntstatus.Status(wire.NotifyCredit), 0, wire.NewCredit(-2), nil)
	v.e.balance(time.Now().Add(61 * time.Minute))
	c.wantCut()
}

// A client whose messages the server defers, as they come too fast, is not cut off for an
// answer that may be among them: the time does not count.
func TestThrottledClientHasNoCreditStall(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{Credits: 4, MaxCredits: 16, StallTimeout: time.Hour}})
	brisk := newFakeSession(7)
	brisk.pace = ratelimit.NewLimiter(1, 0, 0)
	n := v.negotiate(brisk)
	c := v.connect(n)
	c.auth(n, authOptions{})
	shrinks(v, c)
	s := v.conn()
	began := s.credits.snapshot().began
	resume := s.credits.pause()
	v.e.balance(time.Now().Add(61 * time.Minute))
	resume()
	if k := s.credits.snapshot(); k.paused || !k.began.After(began) {
		t.Errorf("%+v, and the change began at %v", k, began)
	}
	brisk.pace.Take(1<<30, 0)
	c.send(wire.NewCredit(-2), nil)
	eventually(t, "the connection is held back", func() bool { return s.credits.snapshot().paused })
	v.e.balance(time.Now().Add(61 * time.Minute))
	if err := context.Cause(s.ctx); err != nil {
		t.Errorf("cut: %v", err)
	}
	brisk.end()
	c.wantCut()
}

// The last credit is never taken back.
//
// Source: [OP-69]
func TestLastCreditIsNeverTakenBack(t *testing.T) {
	v, c := grantEnv(t, Limits{})
	v.conn().shrink(100)
	c.wantDelta(-3)
	for n := int32(-3); n < 0; n++ {
		c.want(ntstatus.Status(wire.NotifyCredit), 0, wire.NewCredit(n), nil)
	}
	v.conn().shrink(1)
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0xFFFF), nil)
}

// Connections whose needs exceed the budget of their user share it in proportion to them, and each
// has one credit.
//
// Source: [LWIO §Credits] [OP-69] [OP-74c]
func TestCreditsAreShared(t *testing.T) {
	v, a := grantEnv(t, Limits{CreditBudget: 16}) // 12 for a user
	sa := v.conn()
	a.send(hungry(16), nil)
	a.wantDelta(8)
	a.reply()
	a.want(ntstatus.Success, 0, wire.NewCredit(0), nil)
	b := v.client()
	if b.credits != 1 {
		t.Fatalf("the second connection has %d credits", b.credits)
	}
	b.send(hungry(8), nil)
	b.reply()
	a.send(hungry(16), nil)
	a.reply()
	v.creditsMayChange()
	v.e.balance(time.Now())
	a.wantDelta(-4)
	for n := int32(-4); n < 0; n++ {
		a.want(ntstatus.Status(wire.NotifyCredit), 0, wire.NewCredit(n), nil)
	}
	b.send(hungry(8), nil)
	b.wantDelta(3)
	b.reply()
	b.want(ntstatus.Success, 0, wire.NewCredit(0), nil)
	if k := sa.credits.snapshot(); k.grant != 8 {
		t.Errorf("the first connection has %d credits", k.grant)
	}
}

// A connection that got no credits tries again when some came back.
//
// Source: [OP-74c]
func TestRefusedGrowthIsRetried(t *testing.T) {
	v, a := grantEnv(t, Limits{CreditBudget: 10}) // 8 for a user
	a.send(hungry(8), nil)
	a.wantDelta(4)
	a.reply()
	a.want(ntstatus.Success, 0, wire.NewCredit(0), nil)
	b := v.client()
	for range 2 {
		b.send(hungry(4), nil)
		b.reply()
	}
	v.e.credits.give(4, creditHolder{v.sess.User(), 1})
	b.send(hungry(4), nil)
	b.wantDelta(3)
}

// Credits change under load and none is lost: many connections at once, each with as many
// requests as it may have, and a balance all the time.
//
// Source: [LWIO §Credits] [OP-65] to [OP-69]
func TestNoCreditIsLostUnderLoad(t *testing.T) { onEach(t, testNoCreditIsLostUnderLoad) }

func testNoCreditIsLostUnderLoad(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{Credits: 4, MaxCredits: 16, CreditBudget: 20, MaxRecvBufferSize: DefaultMaxRecvBufferSize}})
	var clients []*breather
	for range 4 {
		c := v.client()
		clients = append(clients, &breather{rawClient: c, grant: c.credits})
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				v.e.balance(time.Now())
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { c.run(4+4*i, 300) })
	}
	wg.Wait()
	close(stop)
	<-done
	for _, c := range clients {
		s := v.e.conns.find(c.sessionID, c.v.sess.User())
		for s.credits.snapshot().delta != 0 {
			c.step()
		}
	}
	held := func() (sum int) {
		v.e.conns.each(func(c *conn) { sum += c.credits.snapshot().grant })
		return sum
	}
	// A credit is given back to the pool right after the connection does without it.
	eventually(t, "the pool and the connections agree", func() bool { return int(v.e.credits.sum.Held()) == held() })
	if sum := held(); sum > 20 {
		t.Errorf("%d credits are held", sum)
	}
}

// breather is a client that answers every change of its credits.
type breather struct {
	*rawClient
	grant, flying int
	pending       int32 // of the CREDIT messages that it has to send
}

// run performs n requests, up to want at a time, as its credits allow.
func (b *breather) run(want, n int) {
	for n > 0 || b.flying > 0 {
		for b.flying < b.grant && n > 0 && b.pending == 0 {
			b.send(hungry(min(want, n)), nil)
			b.flying++
			n--
		}
		b.step()
	}
}

// step handles an answer, or a change, which has priority over requests.
//
// Source: [OP-68]
func (b *breather) step() {
	s := b.reply()
	switch n := int32(s.Information); {
	case s.Cookie != 0:
		b.flying--
		if s.Status == wire.NotifyCredit {
			b.grant--
		}
	case n < 0:
		b.pending = n
	default:
		b.grant += int(n)
		b.send(wire.NewCredit(0), nil)
		b.flying++
	}
	for b.flying < b.grant && b.pending != 0 {
		b.send(wire.NewCredit(b.pending), nil)
		b.flying++
		b.pending++
	}
}

// The receives of all connections hold no more memory than the budget, over every provider, and one
// receive for each connection.
//
// Source: [OP-69]
func TestCreditsHoldTheBudgetOfMemory(t *testing.T) { onEach(t, testCreditsHoldTheBudgetOfMemory) }

func testCreditsHoldTheBudgetOfMemory(t *testing.T, on string) {
	const budget = 48 // units of the default MaxRecvBufferSize
	v := newEnv(t, envConfig{on: on, limits: Limits{CreditBudget: budget}})
	var clients []*rawClient
	for range 5 {
		clients = append(clients, v.client())
	}
	memory := 0
	v.e.conns.each(func(c *conn) { memory += c.credits.granted() * c.fabric.layout.dataSize })
	least := len(clients) * v.conn().fabric.layout.dataSize
	if most := budget*DefaultMaxRecvBufferSize + least; memory > most {
		t.Errorf("receives of %d bytes, at most %d expected", memory, most)
	}
	if got := int(v.e.credits.sum.Held()) * DefaultMaxRecvBufferSize; got != memory {
		t.Errorf("%d bytes are charged, the receives have %d", got, memory)
	}
}

// Clients of one user return all credits of each growth unused, and fill the receives that stay posted.
// The memory of these receives is charged to the user, and within its limit, but for the first of each
// connection.
//
// Source: [OP-69] [OP-71]
func TestReceivesOfUnusedCreditsAreCharged(t *testing.T) {
	onEach(t, testReceivesOfUnusedCreditsAreCharged)
}

func testReceivesOfUnusedCreditsAreCharged(t *testing.T, on string) {
	const budget, most, clients = 64, 16, 6
	v := newEnv(t, envConfig{on: on, limits: Limits{CreditBudget: budget, Credits: 1, MaxCredits: most, MaxByReferenceSize: DefaultMaxRecvBufferSize}})
	for range clients {
		c := v.client()
		c.send(hungry(most), nil)
		for got := uint32(0); ; {
			s := c.reply()
			if s.Cookie == 0 {
				got = s.Information
				continue
			}
			if got > 0 {
				c.want(ntstatus.Success, 0, wire.NewCredit(int32(got)), nil)
			}
			break
		}
	}
	posted := 0
	v.e.conns.each(func(c *conn) {
		k := c.credits.snapshot()
		posted += k.grant + k.extra
	})
	u := v.e.credits.sum.Usage()
	if int(u.Held) != posted || u.Most > u.UserLimit+clients {
		t.Errorf("%d receives are posted, %d are charged; the user has %d of %d", posted, u.Held, u.Most, u.UserLimit)
	}
}

// Before AUTH a peer over TCP can fill one page.
//
// Source: [OP-44]
func TestReceiveBeforeAuthIsShort(t *testing.T) {
	v := newEnv(t, envConfig{on: "iwarp"})
	c := v.connect(v.negotiate(v.sess))
	c.raw(make([]byte, wire.HeaderSize+authRoom+1))
	c.wantCut()
	eventually(t, "the connection is gone", func() bool { return v.e.count.connections.Load() == 0 })
	if n := v.e.count.authFailures.Load() + v.e.count.cut.Load(); n != 0 {
		t.Errorf("the server has read %d messages", n)
	}
}

// No delta is sent before the answer to AUTH, which grants the first credits. A client takes the first
// message for that answer, and on a sealed connection it opens all later ones.
//
// Source: [LWIO §Credits] [OP-114b]
func TestCreditsDoNotChangeBeforeAnswerToAuth(t *testing.T) {
	var k creditState
	k.begin(8)
	if n := k.beginShrink(4); n != 0 {
		t.Errorf("%d credits are taken back before the answer", n)
	}
	k.sent()
	if n := k.beginShrink(4); n != 4 || k.granted() != 8 {
		t.Errorf("%d of %d credits are taken back after the answer, want 4 of 8", n, k.granted())
	}
}
