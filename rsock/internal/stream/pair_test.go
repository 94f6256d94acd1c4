package stream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock/internal/verbs"
)

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// hangLimit is how long the streams of a test may live. The longest tests need some seconds.
const hangLimit = 30 * time.Second

// hung says that streams have exceeded hangLimit.
var hung atomic.Bool

// watch fails a test whose streams are not closed after hangLimit, and fails the streams, so
// that calls that hang return. A benchmark has no limit.
func watch(tb testing.TB, streams ...*Stream) {
	if _, ok := tb.(*testing.B); ok {
		return
	}
	timer := time.AfterFunc(hangLimit, func() {
		hung.Store(true)
		tb.Errorf("the streams are not closed after %v; the goroutines are\n%s", hangLimit, goroutines())
		for _, s := range streams {
			s.c.fail(errors.New("a call of the test hangs"))
		}
	})
	tb.Cleanup(func() { timer.Stop() })
	go func() {
		for _, s := range streams {
			<-s.closed
		}
		timer.Stop()
	}()
}

// goroutines returns the stacks of all goroutines. A blank line separates different stacks.
func goroutines() string {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a Builder returns no error
	return stacks.String()
}

// fabric is a provider to run tests over.
type fabric struct {
	name     string
	provider func() rdma.Provider
	listen   rdma.Addr
}

var names atomic.Int64

// fabrics returns the fabrics of this machine.
func fabrics() []fabric {
	return []fabric{
		{"shm", func() rdma.Provider { return shm.New(nil) }, rdma.Addr{}},
		{"iwarp", func() rdma.Provider { return iwarp.New(nil) },
			rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0"))},
	}
}

// onFabrics runs a test on all fabrics.
func onFabrics(t *testing.T, test func(t *testing.T, f fabric)) {
	for _, f := range fabrics() {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// service returns a service on a provider for the rest of a test.
func service(tb testing.TB, p rdma.Provider, local netip.Addr, cfg *verbs.Config) *verbs.Service {
	tb.Helper()
	v, err := verbs.StartupEx(tb.Context(), p, local, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := v.Cleanup(); err != nil {
			tb.Errorf("cleanup: %v", err)
		}
	})
	return v
}

// setup is the configuration of a pair.
type setup struct {
	active, passive           Config
	activeVerbs, passiveVerbs *verbs.Config
	// wrap and wrapPassive, if set, change the providers of the sides.
	wrap, wrapPassive func(rdma.Provider) rdma.Provider
}

// sockets returns two connected sockets after it has called prepare for each.
func sockets(tb testing.TB, f fabric, u setup, prepare func(sock *verbs.Socket, active bool) error) (active, passive *verbs.Socket) {
	tb.Helper()
	p := f.provider()
	local := f.listen.AddrPort.Addr()
	front, back := p, p
	if u.wrap != nil {
		front = u.wrap(p)
	}
	if u.wrapPassive != nil {
		back = u.wrapPassive(p)
	}
	near, far := service(tb, front, local, u.activeVerbs), service(tb, back, local, u.passiveVerbs)
	at := f.listen
	if !at.AddrPort.IsValid() {
		at = rdma.Addr{Fabric: f.name, Name: fmt.Sprintf("session-%d-%d", time.Now().UnixNano(), names.Add(1))}
	}
	l, err := far.Listen(tb.Context(), at, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	addr, err := l.Addr()
	if err != nil {
		tb.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		in, err := l.Accept(tb.Context())
		if err == nil {
			passive = in.Socket()
			if err = prepare(passive, false); err == nil {
				_, err = in.Accept(tb.Context(), nil)
			}
		}
		accepted <- err
	}()
	if active, err = near.Socket(tb.Context()); err == nil {
		err = prepare(active, true)
	}
	if err == nil {
		_, err = active.Connect(tb.Context(), addr, nil)
	}
	if err := errors.Join(err, <-accepted); err != nil {
		tb.Fatal(err)
	}
	return active, passive
}

// pair returns two connected streams, and closes them at the end of the test. Their Linger is
// long enough for a busy machine.
func pair(tb testing.TB, f fabric, u setup) (active, passive *Stream) {
	tb.Helper()
	for _, cfg := range []*Config{&u.active, &u.passive} {
		if cfg.Linger == 0 {
			cfg.Linger = patience
		}
	}
	sockets(tb, f, u, func(sock *verbs.Socket, first bool) (err error) {
		if first {
			active, err = New(tb.Context(), sock, u.active)
		} else {
			passive, err = New(tb.Context(), sock, u.passive)
		}
		return err
	})
	watch(tb, active, passive)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- passive.Start(ctx, false) }()
	if err := errors.Join(active.Start(ctx, true), <-started); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeBoth(active, passive) })
	return active, passive
}

// closeBoth closes two streams at the same time.
func closeBoth(a, b *Stream) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Close()
	}()
	_ = a.Close()
	<-done
}
