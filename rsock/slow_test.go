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

// TestSlowAdmitDelaysNoOther has Admit block for a TCP connection: other connections are
// accepted. [WSD §3.2]
func TestSlowAdmitDelaysNoOther(t *testing.T) {
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

// TestDecidingIsBounded opens many TCP connections: Admit runs for a bounded number of them
// at a time, and for all of them in the end.
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
		t.Errorf("Admit was called for %d connections at a time, want %d", most.Load(), deciding)
	}
}

// TestCloseWhileDecidingOverTCP closes while Admit runs: Close waits for Admit, and resets
// the admitted connection.
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
		t.Error("a connection that was admitted while the listener closed goes on")
	}
}

// TestSlowProviderDelaysNoOther has a provider open slowly: other providers and the rest of
// the router go on. Calls that need the slow provider wait within their contexts, and share
// it after the open.
func TestSlowProviderDelaysNoOther(t *testing.T) {
	opening, opened := make(chan struct{}, 2), make(chan struct{})
	slow := &altered{Provider: iwarp.New(nil), name: "slow", open: func() error {
		opening <- struct{}{}
		<-opened
		return nil
	}}
	r := newRouter(with(slow, iwarp.New(nil)))
	table, err := r.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.0.1")
	services := make(chan *service, 2)
	var wg sync.WaitGroup
	open := func() {
		l, err := r.services.open(t.Context(), &table.fabrics[0], local)
		if err != nil {
			t.Error(err)
		}
		services <- l
	}
	wg.Go(open)
	<-opening
	wg.Go(open)

	fast, err := r.services.open(t.Context(), &table.fabrics[1], local)
	if err != nil {
		t.Fatal(err)
	}
	fast.share().release()
	fast.release()
	r.unresponsive.add(rdma.Addr{Name: "x"}, time.Minute)
	if !r.unresponsive.has(rdma.Addr{Name: "x"}) {
		t.Error("an unresponsive address is tried")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.services.open(ended, &table.fabrics[0], local)
	wantIs(t, err, context.Canceled)

	close(opened)
	wg.Wait()
	first, second := <-services, <-services
	if first != second || len(opening) > 0 {
		t.Error("the provider was opened twice")
	}
	first.release()
	second.release()
}

// TestFailedProviderIsOpenedAgain fails to open a provider: the next call opens it.
func TestFailedProviderIsOpenedAgain(t *testing.T) {
	fails := true
	r := newRouter(with(&altered{Provider: iwarp.New(nil), open: func() error {
		if fails {
			return errBroken
		}
		return nil
	}}))
	table, err := r.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.services.open(t.Context(), &table.fabrics[0], netip.MustParseAddr("127.0.0.1"))
	wantIs(t, err, errBroken)
	fails = false
	l, err := r.services.open(t.Context(), &table.fabrics[0], netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	l.release()
}

// TestSlowAddressesUseOldTable reads the addresses slowly: the old table stays in use.
// Without an old table a dial waits within its context.
func TestSlowAddressesUseOldTable(t *testing.T) {
	reading, read := make(chan struct{}), make(chan struct{})
	r := newRouter(&Config{RefreshInterval: time.Hour, hostPrefixes: func() ([]netip.Prefix, error) {
		reading <- struct{}{}
		<-read
		return prefixes("10.0.0.1/8")()
	}})
	tables := make(chan *subnetTable, 2)
	look := func() {
		s, err := r.subnets.current(context.Background())
		if err != nil {
			t.Error(err)
		}
		tables <- s
	}
	go look()
	<-reading
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.subnets.current(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("current without a table: %v", err)
	}
	read <- struct{}{}
	first := <-tables

	r.subnets.invalidate()
	go look()
	<-reading
	if s, err := r.subnets.current(t.Context()); s != first || err != nil {
		t.Errorf("current while the addresses are read: %p, %v, want %p", s, err, first)
	}
	r.subnets.invalidate() // too late for the call that reads now, in time for latest
	if s, err := r.subnets.latest(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("latest while the addresses are read: %p, %v", s, err)
	}
	read <- struct{}{}
	second := <-tables
	if second == first {
		t.Error("the addresses were not read again")
	}
	go look()
	<-reading
	read <- struct{}{}
	if third := <-tables; third == second {
		t.Error("a change was missed")
	}
}

// TestCanceledReadIsNotCached cancels a dial while it reads the addresses: the errors of the
// providers are not kept for other dials.
func TestCanceledReadIsNotCached(t *testing.T) {
	r := newRouter(with(iwarp.New(nil)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.subnets.current(ended)
	wantIs(t, err, context.Canceled)
	table, err := r.subnets.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := &table.fabrics[0]; p.err != nil {
		t.Errorf("the next dial gets %v", p.err)
	}
}

// TestCloseWhileProviderOpens lists the RDMA listeners and closes the Listener while a
// provider opens: the provider is closed too.
func TestCloseWhileProviderOpens(t *testing.T) {
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
		t.Errorf("RDMA listeners %v while the provider opens", list)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	<-l.closing
	close(opened)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if list := l.RDMAAddrs(); len(list) > 0 {
		t.Errorf("RDMA listeners %v of a closed listener", list)
	}
	if n := len(l.router.services.byKey); n > 0 {
		t.Errorf("%d providers are open for a closed listener", n)
	}
}
