package rsock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// TestSlowCondition: a connection by TCP about which the condition function has not decided
// holds up no other. [WSD §3.2]
func TestSlowCondition(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan bool)
	var first atomic.Bool
	l := listenOn(t, &ListenConfig{Admit: func(*Request) bool {
		if first.Swap(true) {
			return true
		}
		close(asked)
		return <-answer
	}}, "127.0.0.1:0")
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	<-asked
	c, a := pairOf(t, new(Dialer), l)
	echo(t, c, a)
	answer <- true
	b, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	echo(t, slow, b)
}

// TestDecidingIsBounded: the condition function is asked about so many connections by TCP at
// a time, and about the others later.
func TestDecidingIsBounded(t *testing.T) {
	const more = 8
	var now, most atomic.Int64
	asked, answer := make(chan struct{}, deciding+more), make(chan struct{})
	l := listenOn(t, &ListenConfig{Admit: func(*Request) bool {
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		asked <- struct{}{}
		<-answer
		now.Add(-1)
		return true
	}}, "127.0.0.1:0")
	for range deciding + more {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range deciding {
		<-asked
	}
	close(answer)
	for range deciding + more {
		a, err := l.AcceptConn()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
	}
	if most.Load() != deciding {
		t.Errorf("the function was asked about %d connections at a time, want %d", most.Load(), deciding)
	}
}

// TestCloseWhileDecidingOverTCP: Close waits for a condition function, and resets what it takes
// then.
func TestCloseWhileDecidingOverTCP(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	l := listenOn(t, &ListenConfig{Admit: func(*Request) bool {
		close(asked)
		<-answer
		return true
	}}, "127.0.0.1:0")
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-asked
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	<-l.closing
	close(answer)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was taken while the listener closed goes on")
	}
}

// TestSlowProvider: while a provider opens, others and what else the switch has go on; who
// waits for it does so as long as its context says; and then all share it.
func TestSlowProvider(t *testing.T) {
	opening, opened := make(chan struct{}, 2), make(chan struct{})
	slow := &altered{Provider: iwarp.New(nil), name: "slow", open: func() error {
		opening <- struct{}{}
		<-opened
		return nil
	}}
	b := newRouter(with(slow, iwarp.New(nil)))
	table, err := b.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.0.1")
	lanes := make(chan *service, 2)
	var wg sync.WaitGroup
	open := func() {
		l, err := b.services.open(t.Context(), &table.fabrics[0], local)
		if err != nil {
			t.Error(err)
		}
		lanes <- l
	}
	wg.Go(open)
	<-opening
	wg.Go(open)

	fast, err := b.services.open(t.Context(), &table.fabrics[1], local)
	if err != nil {
		t.Fatal(err)
	}
	fast.share().release()
	fast.release()
	b.unresponsive.add(rdma.Addr{Name: "x"}, time.Minute)
	if !b.unresponsive.has(rdma.Addr{Name: "x"}) {
		t.Error("a companion that is to be left alone is not")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.services.open(ended, &table.fabrics[0], local)
	wantIs(t, err, context.Canceled)

	close(opened)
	wg.Wait()
	first, second := <-lanes, <-lanes
	if first != second || len(opening) > 0 {
		t.Error("the provider was opened twice")
	}
	first.release()
	second.release()
}

// TestProviderThatFailsIsOpenedAgain: by the next who needs it.
func TestProviderThatFailsIsOpenedAgain(t *testing.T) {
	fails := true
	b := newRouter(with(&altered{Provider: iwarp.New(nil), open: func() error {
		if fails {
			return errBroken
		}
		return nil
	}}))
	table, err := b.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.services.open(t.Context(), &table.fabrics[0], netip.MustParseAddr("127.0.0.1"))
	wantIs(t, err, errBroken)
	fails = false
	l, err := b.services.open(t.Context(), &table.fabrics[0], netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	l.release()
}

// TestSlowAddresses: while the addresses are read anew, the old table serves; without one, a
// dial waits as long as its context says.
func TestSlowAddresses(t *testing.T) {
	reading, read := make(chan struct{}), make(chan struct{})
	b := newRouter(&Config{RefreshInterval: time.Hour, hostPrefixes: func() ([]netip.Prefix, error) {
		reading <- struct{}{}
		<-read
		return prefixes("10.0.0.1/8")()
	}})
	tables := make(chan *subnetTable, 2)
	look := func() {
		s, err := b.subnets.current(context.Background())
		if err != nil {
			t.Error(err)
		}
		tables <- s
	}
	go look()
	<-reading
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.subnets.current(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a look while there is no table: %v", err)
	}
	read <- struct{}{}
	first := <-tables

	b.subnets.invalidate()
	go look()
	<-reading
	if s, err := b.subnets.current(t.Context()); s != first || err != nil {
		t.Errorf("a look while the addresses are read anew: %p, %v, want %p", s, err, first)
	}
	b.subnets.invalidate() // which comes too late for who reads now, and not for who asks for the newest
	if s, err := b.subnets.latest(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the newest while the addresses are read anew: %p, %v", s, err)
	}
	read <- struct{}{}
	second := <-tables
	if second == first {
		t.Error("the addresses were not read anew")
	}
	go look()
	<-reading
	read <- struct{}{}
	if third := <-tables; third == second {
		t.Error("a change was missed")
	}
}

// TestCanceledLook: what providers say to a dial that is given up is not kept for others.
func TestCanceledLook(t *testing.T) {
	b := newRouter(with(iwarp.New(nil)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.subnets.current(ended)
	wantIs(t, err, context.Canceled)
	table, err := b.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := &table.fabrics[0]; p.err != nil {
		t.Errorf("the next one hears %v", p.err)
	}
}

// TestCloseWhileACompanionOpens: the listener tells of its companions and begins to close
// while a provider opens, and what that gives is closed too.
func TestCloseWhileACompanionOpens(t *testing.T) {
	opening, opened := make(chan struct{}), make(chan struct{})
	var tries atomic.Int64
	p := &altered{Provider: iwarp.New(nil), open: func() error {
		switch tries.Add(1) {
		case 1:
			return errBroken
		case 2:
			close(opening)
			<-opened
		}
		return nil
	}}
	cfg := with(p)
	cfg.RefreshInterval = time.Millisecond
	l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
	<-opening
	if list := l.RDMAAddrs(); len(list) > 0 {
		t.Errorf("companions %v while the provider opens", list)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	<-l.closing
	close(opened)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if list := l.RDMAAddrs(); len(list) > 0 {
		t.Errorf("companions %v of a closed listener", list)
	}
	if n := len(l.router.services.byKey); n > 0 {
		t.Errorf("%d providers are open for a closed listener", n)
	}
}
