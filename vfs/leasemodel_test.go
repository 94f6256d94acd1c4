package vfs_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
)

// leaseModel knows leases as their clients do: by the grants and breaks of the server.
type leaseModel struct {
	t     *rapid.T
	s     *vfs.FS
	opens []*leasedOpen
	keys  map[byte]*clientLease // of leases that are held
}

// leasedOpen is an open of the file "f".
type leasedOpen struct {
	o     *vfs.Open
	lease *clientLease // nil without one
	stat  bool
	// abandoned: the open is an orphan that lasts as long as its lease; lost: it has lost that.
	abandoned, lost bool
}

// clientLease is a lease or an oplock as its client sees it.
type clientLease struct {
	m       *leaseModel
	key     byte // 0 for an oplock
	opens   int
	state   vfs.LeaseState
	pending *vfs.LeaseBreak
	epoch   uint16
}

// Random opens, changes, closes and acknowledgements by several clients. Breaks are consistent for each
// client, a lease never allows caching that an operation of another client has contradicted, and no operation waits
// once all breaks are acknowledged.
//
// Source: [MS-FSA 2.1.4.12], [MS-FSA 2.1.5.18], [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.22.2]
func TestLeasesMatchModel(t *testing.T) {
	leakcheck.Check(t)
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		f, _ := modelShare(t, base, vfs.Config{})
		m := &leaseModel{t: t, s: f, keys: make(map[byte]*clientLease)}
		t.Repeat(map[string]func(*rapid.T){
			"open":        m.open,
			"close":       m.close,
			"change":      m.change,
			"name":        m.name,
			"acknowledge": m.acknowledge,
			"abandon":     m.abandon,
			"return":      m.comeBack,
			"":            m.agree,
		})
		for len(m.opens) > 0 {
			m.closeOne(0)
		}
		if got := f.Stats().Leases; got != 0 {
			t.Fatalf("%d leases without opens", got)
		}
	})
}

// broken is the end of a client of a lease.
func (l *clientLease) broken(b vfs.LeaseBreak) vfs.LeaseReach {
	t := l.m.t
	switch {
	case l.pending != nil:
		t.Fatalf("break %+v before the acknowledgement of %+v", b, *l.pending)
	case b.From != l.state || b.To&^b.From != 0 || b.To == b.From || b.Ack != (b.From != leaseR):
		t.Fatalf("break %+v of a lease %b", b, l.state)
	case b.Epoch != l.epoch && b.Epoch != l.epoch+1:
		t.Fatalf("break %+v, last epoch %d", b, l.epoch)
	}
	l.epoch = b.Epoch
	if b.Ack {
		l.pending = &b
	} else {
		l.state = b.To
	}
	return vfs.LeaseReached
}

// answer acknowledges a break with a part of the state that is offered.
func (l *clientLease) answer(keep vfs.LeaseState) {
	b := l.pending
	keep &= b.To
	l.pending, l.state = nil, keep
	var got vfs.LeaseState
	var err error
	if l.key != 0 {
		got, err = l.m.s.AcknowledgeLease(keyOf(l.key), keep)
	} else {
		for _, x := range l.m.opens {
			if x.lease == l {
				got, err = x.o.AcknowledgeOplock(keep)
			}
		}
	}
	if err != nil || got != keep {
		l.m.t.Fatalf("acknowledgement of %+v with %b: %b, %v", *b, keep, got, err)
	}
}

// until does an operation again and again until it does not wait. After each wait all clients acknowledge.
func (m *leaseModel) until(t *rapid.T, do func(again bool) error) error {
	for n := range 10 {
		err := do(n > 0)
		w := vfs.AsLeaseWait(err)
		if w == nil {
			return err
		}
		pending := 0
		for _, l := range m.leases() {
			if l.pending != nil {
				pending++
				l.answer(vfs.LeaseState(rapid.IntRange(0, 7).Draw(t, "kept")))
			}
		}
		if m.reap() == 0 && pending == 0 {
			t.Fatal("a wait without a break")
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no end of waits")
	return nil
}

func (m *leaseModel) leases() (all []*clientLease) {
	seen := make(map[*clientLease]bool)
	for _, o := range m.opens {
		if o.lease != nil && !seen[o.lease] {
			seen[o.lease] = true
			all = append(all, o.lease)
		}
	}
	return all
}

func (m *leaseModel) open(t *rapid.T) {
	m.t = t
	kind := rapid.SampledFrom([]string{"plain", "oplock", "lease", "lease"}).Draw(t, "kind")
	stat := rapid.IntRange(0, 4).Draw(t, "stat") == 0
	q := vfs.OpenRequest{
		Share: "x", Path: "f", Access: everything, ShareMode: vfs.ShareAll,
		Disposition: rapid.SampledFrom([]vfs.Disposition{vfs.OpenIf, vfs.OpenIf, vfs.OverwriteIf}).Draw(t, "disposition"), Owner: "alice",
	}
	if stat {
		q.Access = vfs.ReadAttributes
	}
	if rapid.IntRange(0, 5).Draw(t, "exclusive") == 0 {
		q.ShareMode = vfs.ShareDelete
	}
	var l *clientLease
	asked := vfs.LeaseState(0)
	switch kind {
	case "oplock":
		asked = rapid.SampledFrom([]vfs.LeaseState{leaseR, leaseRW, leaseRWH}).Draw(t, "level")
		l = &clientLease{m: m}
		q.Lease = &vfs.LeaseRequest{Oplock: true, State: asked, Broken: l.broken}
	case "lease":
		asked = vfs.LeaseState(rapid.IntRange(0, 7).Draw(t, "state"))
		key := byte(rapid.IntRange(1, 3).Draw(t, "key"))
		if l = m.keys[key]; l == nil {
			l = &clientLease{m: m, key: key}
		}
		q.Lease = &vfs.LeaseRequest{Key: keyOf(key), State: asked, Broken: l.broken}
	}
	var o *vfs.Open
	err := m.until(t, func(again bool) (err error) {
		q.Again = again
		o, _, err = m.s.Open(q)
		return err
	})
	if err != nil {
		if !errors.Is(err, ntstatus.SharingViolation) && !errors.Is(err, ntstatus.DeletePending) && !errors.Is(err, ntstatus.FileNotAvailable) {
			t.Fatal(err)
		}
		return
	}
	got := o.Lease()
	x := &leasedOpen{o: o, stat: stat}
	if l != nil && (l.key != 0 || got.State != 0) {
		x.lease = l
		l.opens++
		if l.key != 0 {
			m.keys[l.key] = l
		}
		if l.opens == 1 {
			l.state, l.epoch = 0, 0
		}
		if grown := got.State &^ l.state; grown&^asked != 0 {
			t.Fatalf("asked %b, granted %b", asked, got.State)
		}
		l.state, l.epoch = got.State, got.Epoch
	}
	m.opens = append(m.opens, x)
	if stat && q.Disposition != vfs.OverwriteIf {
		return
	}
	for _, other := range m.leases() {
		if other != x.lease && other.state&vfs.LeaseWrite != 0 {
			t.Fatalf("an open beside a lease %b", other.state)
		}
	}
	if q.Disposition == vfs.OverwriteIf {
		m.noReads(x, false)
	}
}

// noReads checks that no client but that of by goes on reading old data.
func (m *leaseModel) noReads(by *leasedOpen, wrote bool) {
	m.reap()
	for _, l := range m.leases() {
		if l == by.lease && !(wrote && l.key == 0 && l.state == leaseR) {
			continue
		}
		if l.state&leaseR != 0 && (l.pending == nil || l.pending.To&leaseR != 0 && !m.breaking(l)) {
			m.t.Fatalf("a lease %b after a change, pending %+v", l.state, l.pending)
		}
	}
}

// breaking reports whether the server has a lease as one that is being broken.
func (m *leaseModel) breaking(l *clientLease) bool {
	for _, x := range m.opens {
		if x.lease == l {
			return x.o.Lease().Breaking
		}
	}
	return false
}

// pick returns the index of an open, or skips the step.
func (m *leaseModel) pick(t *rapid.T) int {
	m.t = t
	if len(m.opens) == 0 {
		t.Skip("no open")
	}
	return rapid.IntRange(0, len(m.opens)-1).Draw(t, "open")
}

func (m *leaseModel) close(t *rapid.T) { m.closeOne(m.pick(t)) }

func (m *leaseModel) closeOne(i int) {
	x := m.opens[i]
	m.opens = append(m.opens[:i:i], m.opens[i+1:]...)
	if err := x.o.Close(); err != nil {
		m.t.Fatal(err)
	}
	if l := x.lease; l != nil {
		if l.opens--; l.opens == 0 {
			delete(m.keys, l.key)
		}
	}
}

func (m *leaseModel) change(t *rapid.T) {
	x := m.opens[m.pick(t)]
	if x.stat || x.abandoned {
		t.Skip("no right to the data, or no client")
	}
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		if err := x.o.Acquire(); err != nil {
			t.Fatal(err)
		}
		_, err := x.o.WriteAt([]byte("data"), 0)
		if x.o.Release(); err != nil {
			t.Fatal(err)
		}
	case 1:
		if err := x.o.Truncate(7); err != nil {
			t.Fatal(err)
		}
	case 2:
		r := vfs.Range{Off: 100, Len: 1}
		if err := x.o.TryLock(vfs.Lock{Range: r}); err != nil {
			t.Fatal(err)
		}
		if err := x.o.Unlock(r); err != nil {
			t.Fatal(err)
		}
	}
	m.noReads(x, true)
}

// name makes a delete pending and cancels it.
func (m *leaseModel) name(t *rapid.T) {
	x := m.opens[m.pick(t)]
	if x.stat || x.abandoned {
		t.Skip("no right to delete, or no client")
	}
	if err := m.until(t, func(bool) error { return x.o.SetDeleteOnClose(true) }); err != nil {
		t.Fatal(err)
	}
	m.reap()
	for _, l := range m.leases() {
		if l != x.lease && l.state&vfs.LeaseHandle != 0 {
			t.Fatalf("a lease %b of a file that is deleted", l.state)
		}
	}
	if err := x.o.SetDeleteOnClose(false); err != nil {
		t.Fatal(err)
	}
}

// acknowledge acknowledges a break, or one that there is not.
func (m *leaseModel) acknowledge(t *rapid.T) {
	x := m.opens[m.pick(t)]
	l := x.lease
	if x.abandoned {
		t.Skip("no client")
	}
	if l == nil {
		if _, err := x.o.AcknowledgeOplock(0); !errors.Is(err, ntstatus.ObjectNameNotFound) {
			t.Fatal(err)
		}
		return
	}
	if l.pending != nil {
		l.answer(vfs.LeaseState(rapid.IntRange(0, 7).Draw(t, "kept")))
		return
	}
	if l.key != 0 {
		if _, err := m.s.AcknowledgeLease(keyOf(l.key), 0); !errors.Is(err, ntstatus.Unsuccessful) {
			t.Fatal(err)
		}
	}
}

// abandon loses the client of an open.
func (m *leaseModel) abandon(t *rapid.T) {
	x := m.opens[m.pick(t)]
	if x.abandoned {
		t.Skip("no client")
	}
	lost := func() {
		if x.lost || !x.abandoned {
			t.Fatal("an open has lost its lease twice, or with a client")
		}
		x.lost = true
	}
	lasts := x.lease != nil && x.lease.state&vfs.LeaseHandle != 0 && x.lease.pending == nil
	if got := x.o.Ownership().Abandon(lost); got != lasts {
		t.Fatalf("abandoned: %t, want %t", got, lasts)
	}
	x.abandoned = lasts
}

// comeBack gives an orphan back to its client.
func (m *leaseModel) comeBack(t *rapid.T) {
	x := m.opens[m.pick(t)]
	if !x.abandoned {
		t.Skip("no orphan")
	}
	if !x.o.Ownership().Return() {
		t.Fatal("an orphan with its lease does not return")
	}
	x.abandoned = false
}

// reap closes the orphans that have lost their lease, and returns their number. They do not return. An orphan
// whose lease has no LeaseHandle is one of them.
func (m *leaseModel) reap() (n int) {
	for i := 0; i < len(m.opens); {
		x := m.opens[i]
		if x.abandoned && !x.lost && x.lease.state&vfs.LeaseHandle == 0 {
			m.t.Fatalf("an orphan with the lease %b", x.lease.state)
		}
		if !x.lost {
			i++
			continue
		}
		if x.o.Ownership().Return() {
			m.t.Fatal("an orphan without its lease returns")
		}
		m.closeOne(i)
		n++
	}
	return n
}

// agree compares the leases of the server with those of the clients.
func (m *leaseModel) agree(t *rapid.T) {
	m.t = t
	m.reap()
	writers, holders := 0, 0
	for _, l := range m.leases() {
		if l.state != 0 {
			holders++
		}
		if l.state&vfs.LeaseWrite != 0 {
			writers++
		}
		for _, x := range m.opens {
			if got := x.o.Lease(); x.lease == l && (got.State != l.state || got.Breaking != (l.pending != nil)) {
				t.Fatalf("server %+v, client %b, pending %+v", got, l.state, l.pending)
			}
		}
	}
	if writers > 1 || writers == 1 && holders > 1 {
		t.Fatalf("%d leases to write among %d", writers, holders)
	}
	if got := m.s.Stats(); got.Leases != len(m.leases()) || got.Leases > got.Opens {
		t.Fatalf("%+v, want %d leases", got, len(m.leases()))
	}
}
