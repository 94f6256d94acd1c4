package verbs

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// patience is how long a test waits for an event that must happen at once.
const patience = 20 * time.Second

// fabric is a provider under test, and the address to listen at.
type fabric struct {
	name   string
	make   func() rdma.Provider
	listen rdma.Addr
}

var fabrics = []fabric{
	{"shm", func() rdma.Provider { return shm.New(nil) }, rdma.Addr{Fabric: shm.Name}},
	{"iwarp", func() rdma.Provider { return iwarp.New(nil) }, rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0"))},
}

// onAll runs a test on every fabric.
func onAll(t *testing.T, test func(t *testing.T, f fabric)) {
	for _, f := range fabrics {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// service returns a service for the rest of a test.
func service(tb testing.TB, p rdma.Provider, cfg *Config) *Service {
	tb.Helper()
	v, err := StartupEx(tb.Context(), p, netip.Addr{}, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := v.Cleanup(); err != nil {
			tb.Error("cleanup:", err)
		}
	})
	return v
}

// end is a socket with some memory.
type end struct {
	*Socket
	tb   testing.TB
	buf  []byte
	h    Handle
	hole Overlapped // of the receive that is posted before the connection
}

func newEnd(tb testing.TB, s *Socket, size int) *end {
	tb.Helper()
	e := &end{Socket: s, tb: tb, buf: make([]byte, size)}
	e.h = e.register(e.buf, MemReadWrite)
	if err := s.Recv(&e.hole, nil, 0); err != nil {
		tb.Fatal(err)
	}
	return e
}

func (e *end) register(buf []byte, access Access) Handle {
	e.tb.Helper()
	h, err := e.RegisterMemory(e.tb.Context(), buf, access)
	if err != nil {
		e.tb.Fatal(err)
	}
	return h
}

// part names n bytes of the end's memory.
func (e *end) part(off, n int) []BufferEx { return []BufferEx{{Handle: e.h, Offset: off, Length: n}} }

// expose registers memory for the peer, and returns the descriptor.
func (e *end) expose(buf []byte, access Access) []byte {
	e.tb.Helper()
	desc := make([]byte, MaxDescriptorSize)
	n, err := e.RegisterRdmaMemory(e.tb.Context(), buf, access, desc)
	if err != nil {
		e.tb.Fatal(err)
	}
	return desc[:n]
}

// wait waits for the outcome of a request.
func (e *end) wait(o *Overlapped) (int, error) {
	e.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		n, err := e.GetResult(o)
		if !errors.Is(err, IOIncomplete) {
			return n, err
		}
		if err := e.Wait(ctx); err != nil {
			e.tb.Fatal("wait:", err)
		}
	}
}

// ok waits for a request that must succeed.
func (e *end) ok(what string, o *Overlapped, posted error) int {
	e.tb.Helper()
	if posted != nil {
		e.tb.Fatalf("%s: %v", what, posted)
	}
	n, err := e.wait(o)
	if err != nil {
		e.tb.Fatalf("%s: %v", what, err)
	}
	return n
}

// fails notes a failure unless err has the code.
func fails(tb testing.TB, what string, err error, want Errno) {
	tb.Helper()
	if got := ErrnoOf(err); got != want {
		tb.Errorf("%s: error %v, want one that is %q", what, err, want)
	}
}

// fill sends an empty message into the peer's hole.
func (e *end) fill(peer *end) {
	e.tb.Helper()
	var o Overlapped
	e.ok("first send", &o, e.Send(&o, nil, 0))
	if n := peer.ok("first receive", &peer.hole, nil); n != 0 {
		e.tb.Errorf("first message has %d bytes", n)
	}
}

// listen returns a listener, which the caller closes, and its address.
func listen(tb testing.TB, f fabric, v *Service) (*Listener, rdma.Addr) {
	tb.Helper()
	l, err := v.Listen(tb.Context(), f.listen, 0)
	if err != nil {
		tb.Fatal(err)
	}
	addr, err := l.Addr()
	if err != nil {
		tb.Fatal(err)
	}
	return l, addr
}

// pair connects two ends with size bytes of memory each.
func pair(tb testing.TB, f fabric, cfg *Config, size int) (active, passive *end) {
	tb.Helper()
	return pairOn(tb, f, service(tb, f.make(), cfg), service(tb, f.make(), cfg), size)
}

// pairOn connects two services.
func pairOn(tb testing.TB, f fabric, va, vp *Service, size int) (active, passive *end) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	l, addr := listen(tb, f, vp)
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		in, err := l.Accept(ctx)
		if err == nil {
			passive = newEnd(tb, in.Socket(), size)
			_, err = in.Accept(ctx, append([]byte("re: "), in.PrivateData()[:5]...))
		}
		accepted <- err
	}()
	s, err := va.Socket(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	active = newEnd(tb, s, size)
	reply, err := s.Connect(ctx, addr, []byte("hello"))
	if err := errors.Join(err, <-accepted); err != nil {
		tb.Fatal(err)
	}
	if len(reply) < 9 || string(reply[:9]) != "re: hello" {
		tb.Errorf("private data of the reply: %q", reply)
	}
	active.fill(passive) // the active side sends first
	passive.fill(active)
	return active, passive
}
