package softrdma

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"lwio/rdma"
)

// windowHost has the windows of one queue pair, and the memory that they expose.
type windowHost struct {
	Windows
	t      testing.TB
	mu     sync.Mutex
	region *Region
}

func newDomain(t testing.TB) *Domain {
	d := NewDomain("soft")
	t.Cleanup(func() { d.Close() })
	return d
}

func (d *Domain) register(t testing.TB, size int, access rdma.Access) *Region {
	t.Helper()
	m, err := d.RegisterMemory(t.Context(), make([]byte, size), access, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*Region)
}

func newWindowHost(t testing.TB, d *Domain) *windowHost {
	l := &windowHost{t: t, region: d.register(t, 4096, rdma.AccessRemoteWrite)}
	l.Init(d, &l.mu)
	return l
}

func (l *windowHost) window() *Window {
	l.t.Helper()
	w, err := l.d.CreateMemoryWindow()
	if err != nil {
		l.t.Fatal(err)
	}
	return w.(*Window)
}

const bindAll = rdma.FlagAllowRead | rdma.FlagAllowWrite

// post handles a request as a queue pair does.
func (l *windowHost) post(r rdma.Request, now bool) (WindowWork, rdma.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.AdoptLocked(&r)
	return l.PostLocked(&r, now)
}

func (l *windowHost) bind(w *Window, off, n int, now bool) WindowWork {
	l.t.Helper()
	x, status := l.post(rdma.Request{Op: rdma.OpBind, Flags: bindAll, Window: w, Region: l.region, Offset: off, Length: n}, now)
	if status != rdma.StatusSuccess {
		l.t.Fatal("bind:", status)
	}
	return x
}

func (l *windowHost) invalidate(w *Window, now bool) WindowWork {
	l.t.Helper()
	x, status := l.post(rdma.Request{Op: rdma.OpInvalidate, Window: w}, now)
	if status != rdma.StatusSuccess {
		l.t.Fatal("invalidate:", status)
	}
	return x
}

func (l *windowHost) carryOut(x WindowWork) { l.mu.Lock(); defer l.mu.Unlock(); l.CarryOutLocked(&x) }
func (l *windowHost) giveUp(x WindowWork)   { l.mu.Lock(); defer l.mu.Unlock(); l.GiveUpLocked(&x) }

// reach returns the refusal of a peer's write of one byte at the beginning.
func (l *windowHost) reach(at rdma.RemoteAddr) Refusal {
	_, _, refused := l.Resolve(uint32(at.Token), at.Addr, 1, rdma.AccessRemoteWrite)
	return refused
}

func (l *windowHost) wants(what string, at rdma.RemoteAddr, want Refusal) {
	l.t.Helper()
	if got := l.reach(at); got != want {
		l.t.Errorf("%s: refusal %d, want %d", what, got, want)
	}
}

// Random binds and invalidates leave all tokens correct.
//
// Source: [OP-111b], [RFC 5042 §6.1.1]
func TestManyWindowsHaveDistinctTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newWindowHost(t, newDomain(t))
	windows := make([]*Window, 300)
	bound := map[int]rdma.RemoteAddr{}
	for i := range windows {
		windows[i] = l.window()
	}
	seen := map[rdma.RemoteToken]bool{}
	high, low := rdma.RemoteToken(0), rdma.RemoteToken(0)
	for turn := range 5000 {
		i := rng.IntN(min(len(windows), turn/4+1))
		if at, ok := bound[i]; ok {
			l.invalidate(windows[i], true)
			delete(bound, i)
			l.wants("invalidated", at, BadToken)
			continue
		}
		l.bind(windows[i], i, 8, true)
		at := windows[i].RemoteAddr()
		if at.Token&1 == 0 || seen[at.Token] {
			t.Fatalf("token %x", at.Token)
		}
		seen[at.Token], bound[i] = true, at
		high, low = high|at.Token, low|^at.Token
		for _, at := range bound {
			if got := l.reach(at); got != Granted {
				t.Fatalf("one of %d windows is lost", len(bound))
			}
		}
	}
	if high != ^rdma.RemoteToken(0) || low != ^rdma.RemoteToken(1) {
		t.Errorf("bits that never change: %x %x", ^high, ^low)
	}
	l.RevokeAll()
	for i, at := range bound {
		l.wants("revoked", at, BadToken)
		l.bind(windows[i], 0, 8, true)
	}
	if l.table.used != len(bound) {
		t.Errorf("%d places are in use for %d windows", l.table.used, len(bound))
	}
}

// A bind allocates nothing once the table has its size.
func TestBindDoesNotAllocate(t *testing.T) {
	l := newWindowHost(t, newDomain(t))
	w := l.window()
	bind := rdma.Request{Op: rdma.OpBind, Flags: bindAll, Window: w, Region: l.region, Length: 8}
	inval := rdma.Request{Op: rdma.OpInvalidate, Window: w}
	cycle := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.AdoptLocked(&bind)
		l.PostLocked(&bind, true)
		l.PostLocked(&inval, true)
	}
	for range 1000 {
		cycle()
	}
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Error(n, "allocations")
	}
}

// A reference belongs to one binding. An invalidate waits for the references of its
// binding.
//
// Source: [RFC 5042 §6.3.3]
func TestInvalidateWaitsForReferences(t *testing.T) {
	l := newWindowHost(t, newDomain(t))
	w := l.window()
	l.bind(w, 0, 8, true)
	at := w.RemoteAddr()
	grant, _, _ := l.Resolve(uint32(at.Token), at.Addr, 8, rdma.AccessRemoteWrite)
	if !grant.Acquire() {
		t.Fatal("no reference")
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.Close()
	}()
	for l.reach(at) == Granted {
	}
	if grant.Acquire() {
		t.Error("a reference to an ended binding")
	}
	select {
	case <-gone:
		t.Error("closed while the memory is in use")
	default:
	}
	grant.Release()
	<-gone
	if _, status := l.post(rdma.Request{Op: rdma.OpBind, Flags: bindAll, Window: w, Region: l.region, Length: 8}, true); status != rdma.StatusInvalidHandle {
		t.Error("bind of a closed window:", status)
	}
}

// The program may use the memory as soon as the window is invalid. The race detector
// would report an access of the peer.
//
// Source: [RFC 5042 §6.3.3]
func TestRevocationIsFinal(t *testing.T) {
	l := newWindowHost(t, newDomain(t))
	w := l.window()
	tokens := make(chan rdma.RemoteAddr, 1)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			sum := byte(0)
			defer func() { runtime.KeepAlive(sum) }()
			for at := range tokens {
				for range 50 {
					grant, mem, refused := l.Resolve(uint32(at.Token), at.Addr, 8, rdma.AccessRemoteWrite)
					if refused != Granted || !grant.Acquire() {
						break
					}
					sum += mem[7] // a write would race with a write of another goroutine
					grant.Release()
				}
			}
		})
	}
	for i := range 2000 {
		l.bind(w, 0, 8, true)
		at := w.RemoteAddr()
		tokens <- at
		if i%3 == 0 {
			l.Invalidate(uint32(at.Token))
		}
		l.invalidate(w, true)
		l.region.buf[7]++
	}
	close(tokens)
	wg.Wait()
}

// Requests that are posted before their turn are carried out, or given up, in order.
//
// Source: [ND QueuePair.Bind], [ND QueuePair §Ordering]
func TestWindowWorkTakesEffectInItsTurn(t *testing.T) {
	l := newWindowHost(t, newDomain(t))
	w := l.window()
	x := l.bind(w, 0, 8, false)
	first := w.RemoteAddr()
	y := l.invalidate(w, false)
	z := l.bind(w, 8, 8, false)
	second := w.RemoteAddr()
	l.wants("a bind that waits", first, BadToken)
	if l.Invalidate(uint32(first.Token)) {
		t.Error("the peer invalidates a binding that is not in force yet")
	}
	if err := l.region.Close(); rdma.StatusOf(err) != rdma.StatusDeviceBusy {
		t.Error("close of a region that is going to be binding:", err)
	}
	if newWindowHost(t, l.d).refuses(w) != rdma.StatusInvalidDeviceRequest {
		t.Error("a window was taken from where it is in use")
	}
	l.carryOut(x)
	l.wants("the first bind", first, Granted)
	l.Invalidate(uint32(first.Token)) // the peer does so, while the next bind waits
	if l.refuses(w) != rdma.StatusInvalidDeviceRequest {
		t.Error("a second bind is taken while one waits")
	}
	l.carryOut(y)
	l.carryOut(z)
	l.wants("the first bind, invalidated", first, BadToken)
	l.wants("the second bind", second, Granted)

	x, y = l.invalidate(w, false), l.bind(w, 16, 8, false)
	third := w.RemoteAddr()
	l.giveUp(x)
	l.wants("after an invalidate was given up", second, Granted)
	l.carryOut(y)
	l.wants("the earlier binding", second, BadToken)
	l.wants("the third bind", third, Granted)

	x, y = l.invalidate(w, false), l.bind(w, 16, 8, false)
	l.giveUp(x)
	l.giveUp(y)
	l.wants("after all was given up", third, Granted)
	l.invalidate(w, true)
	if l.table.used != 0 {
		t.Error(l.table.used, "places are in use")
	}
	if err := l.region.Close(); err != nil {
		t.Error(err)
	}
}

// refuses returns the status of a bind of the window on this queue pair.
func (l *windowHost) refuses(w *Window) rdma.Status {
	_, status := l.post(rdma.Request{Op: rdma.OpBind, Flags: bindAll, Window: w, Region: l.region, Length: 8}, true)
	return status
}

// A window is bound on several queue pairs in turn, and can be closed at any time.
//
// Source: [ND MemoryWindow]
func TestUnboundWindowMovesToAnotherQueuePair(t *testing.T) {
	d := newDomain(t)
	l, m := newWindowHost(t, d), newWindowHost(t, d)
	w := l.window()
	for range 3 {
		l.bind(w, 0, 8, true)
		if m.refuses(w) != rdma.StatusInvalidDeviceRequest {
			t.Fatal("bound twice")
		}
		l.RevokeAll() // as at the end of the connection
		m.bind(w, 0, 8, true)
		if _, status := l.post(rdma.Request{Op: rdma.OpInvalidate, Window: w}, true); status != rdma.StatusInvalidDeviceRequest {
			t.Fatal("invalidated by another queue pair:", status)
		}
		m.invalidate(w, true)
	}
	x := l.bind(w, 0, 8, false)
	w.Close()
	l.carryOut(x)
	l.wants("a window that was closed before its turn", w.RemoteAddr(), BadToken)
	if err := l.region.Close(); err != nil {
		t.Error(err)
	}
}

// Two queue pairs compete for windows of one region.
func TestConcurrentQueuePairsShareWindows(t *testing.T) {
	d := newDomain(t)
	l := newWindowHost(t, d)
	windows := []*Window{l.window(), l.window(), l.window()}
	var wg sync.WaitGroup
	for i := range 3 {
		p := &windowHost{t: t, region: l.region}
		p.Init(d, &p.mu)
		wg.Go(func() {
			for j := range 1000 {
				w := windows[(i+j)%3]
				switch {
				case p.refuses(w) == rdma.StatusSuccess:
					p.invalidate(w, true)
				case j%100 == i:
					_ = l.region.Close() // it may be refused
				}
				_ = w.RemoteAddr()
			}
		})
	}
	wg.Wait()
	if err := l.region.Close(); err != nil {
		t.Error(err)
	}
}
