package smbserver

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/statefile"
)

// staleOpens are the durable opens of earlier processes that could not be restored, with the reasons, for which their
// clients ask. The state has them too until the client has the answer, or the time of the open is over: if this
// process dies before that, the next one knows the reason. Safe for concurrent use.
type staleOpens struct {
	state *statefile.Log // nil if the server has none
	log   *slog.Logger
	found int // at the start of the server; fixed before the first connection

	mu   sync.Mutex
	byID map[uint64]staleOpen // by persistent id
	// expiry forgets the records; nil without any.
	expiry  *time.Timer
	stopped bool
}

// staleOpen is one of them.
type staleOpen struct {
	key    durableKey
	domain string
	status ntstatus.Status // the reason
	kept   bool            // in the state
}

// add adds an open. If keep is set, the state gets the reason in place of the locks of the open; otherwise, and if that
// fails, its records are removed.
func (t *staleOpens) add(o *savedOpen, reason ntstatus.Status, keep bool) {
	keep = keep && t.write(o, reason) == nil
	if !keep {
		t.drop(o.id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[o.id] = staleOpen{o.record.durableKey(), o.record.domain, reason, keep}
	t.found++
}

// write changes the records of an open into that of a stale one.
func (t *staleOpens) write(o *savedOpen, reason ntstatus.Status) error {
	if o.stale == reason {
		return nil
	}
	c := newChanges()
	defer c.free()
	for item := range o.locks {
		c.deleteLock(o.id, item)
	}
	for i, number := range o.sequences {
		if number > 0 {
			c.batch.Delete(statefile.Key{Group: o.id, Item: uint64(i) + 1})
		}
	}
	c.value = binary.LittleEndian.AppendUint32(c.value[:0], uint32(reason))
	c.batch.Put(statefile.Key{Group: o.id, Item: staleItem}, c.value)
	return t.state.Apply(&c.batch)
}

// drop removes the records of an open from the state. A failed removal is repeated by the log.
func (t *staleOpens) drop(id uint64) {
	if err := t.state.Drop(id); err != nil {
		t.log.Error("smb: state of an open that is not restored", "open", id, "err", err)
	}
}

// lapse has all records removed after a time. Precondition: it is called once.
func (t *staleOpens) lapse(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expiry = time.AfterFunc(after, func() { t.forget(func(staleOpen) bool { return true }) })
}

// answer returns the reason for the client of an open, which asks for it.
func (t *staleOpens) answer(id uint64, key durableKey) (reason ntstatus.Status, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.byID[id]
	if !ok || s.key != key {
		return ntstatus.Success, false
	}
	t.forgetLocked(id, s)
	return s.status, true
}

// forget removes the records of those opens that gone reports. It leaves the records of a server that is stopped.
func (t *staleOpens) forget(gone func(staleOpen) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.byID {
		if gone(s) {
			t.forgetLocked(id, s)
		}
	}
}

// forgetLocked removes the records of an open. Precondition: mu is held.
func (t *staleOpens) forgetLocked(id uint64, s staleOpen) {
	if !s.kept || t.stopped {
		return
	}
	s.kept = false
	t.byID[id] = s
	t.drop(id)
}

// stop leaves the records to the next process.
func (t *staleOpens) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.expiry != nil {
		t.expiry.Stop()
	}
}
