package server

import (
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/internal/writelog"
	"lwio/vfs"
)

// writeRecords keeps the writes of all connections in the state, so that a restart of the process loses none of
// them: each connection has a log of its own. nil without a state.
//
// Source: [OP-112]
type writeRecords struct {
	dir, boot string
	logger    *slog.Logger
	failing   atomic.Bool // since the last log that could be made, one could not be made, written or read
}

// failed notes and logs a failure: some writes are uncertain after a restart.
func (w *writeRecords) failed(err error) {
	w.failing.Store(true)
	w.logger.Error("lwio: writes in flight are uncertain after a restart", "err", err)
}

// nextStep bounds the distance from the number of the next message in a log to the right one. The low 16 bits of the right one,
// which a client sends in AUTH, are enough then.
const nextStep = 1 << 14

// doubt is a write of an earlier process that has begun and has no result: it is done, done in part, or not. The client sends
// it again, and then it is done again, unless another change of the same bytes has overtaken it. Safe for concurrent use.
type doubt struct {
	writelog.Record
	open  *vfs.Open // nil if it was not restored
	write vfs.Write // in the open

	mu        sync.Mutex
	overtaken bool
	settled   bool // it has a result
	at        []logPlace
}

// logPlace is a place of a write in a log.
type logPlace struct {
	log  *writelog.Log
	slot int
}

// Overtaken notes in the logs that the write must not be done again.
func (d *doubt) Overtaken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.overtaken = true
	for _, p := range d.at {
		p.log.Overtake(p.slot)
	}
}

// keepIn adds a place of the write in another log.
func (d *doubt) keepIn(log *writelog.Log, slot int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = append(d.at, logPlace{log, slot})
	if d.overtaken {
		log.Overtake(slot)
	}
}

// onlyInLast forgets the places in other logs than the last.
func (d *doubt) onlyInLast() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at[len(d.at)-1:]
}

// settle notes the result of the write.
func (d *doubt) settle(status ntstatus.Status, info uint32) {
	d.mu.Lock()
	d.settled = true
	for _, p := range d.at {
		p.log.End(p.slot, uint32(status), info)
	}
	d.mu.Unlock()
	d.end()
}

// isOpen reports whether the write has no result.
func (d *doubt) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.settled
}

// openDoubts removes the writes that have a result, or that no client can send again at a connection whose next message has
// that number, because their numbers are too old.
func openDoubts(all []*doubt, next int64) []*doubt {
	return slices.DeleteFunc(all, func(d *doubt) bool {
		over := !d.isOpen() || d.Number < next-math.MaxInt16
		if over {
			d.end()
		}
		return over
	})
}

// record returns the write for another log.
func (d *doubt) record() writelog.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.Record
	r.Overtaken = d.overtaken
	return r
}

// end makes other changes of the same bytes go on without a note.
func (d *doubt) end() {
	if d.open != nil {
		d.open.EndWrite(d.write)
	}
}

// redo does the write again with the data p of the message o. If it is not sure that all of it is done, and was done
// once, the outcome is unknown.
func (d *doubt) redo(o *op, p []byte) (uint32, ntstatus.Status) {
	if o.file.open != d.open || int64(o.h.Offset) != d.Off || o.h.Length != d.Length {
		return 0, ntstatus.RequestOutOfSequence
	}
	if n, err := d.open.Redo(d.write, p, d.Off); err == nil {
		return uint32(n), ntstatus.Success
	}
	return 0, ntstatus.RequestOutOfSequence
}

// openLog begins the log of a connection with the writes of the connections that it replaced, whose log ends.
// Without a log the writes of the connection are uncertain after a restart.
func (c *conn) openLog() {
	r, k := &c.replay, c.replay.replaced
	w := c.engine.records
	if w == nil {
		return
	}
	cfg := writelog.Config{
		Dir: w.dir, Next: r.first, Slots: 2 * r.most, Failed: w.failed,
		Header: writelog.Header{Boot: w.boot, ID: c.auth.sessionID, User: c.auth.lineage.User()},
	}
	if k != nil {
		cfg.Replaced, cfg.Previous, cfg.PreviousNext = k.id, k.asked, k.askedNext
		for _, d := range r.doubts {
			cfg.Earlier = append(cfg.Earlier, d.record())
		}
		for _, x := range k.all {
			cfg.Earlier = append(cfg.Earlier, writelog.Record{Number: x.number, Done: true, Status: uint32(x.status), Info: x.info})
		}
	}
	u, err := writelog.Create(&cfg)
	if err != nil {
		w.failed(err)
		return
	}
	for i, d := range r.doubts {
		d.keepIn(u.Log, cfg.Slots+i)
	}
	if r.log, err = u.Finish(); err != nil {
		w.failed(err)
		return
	}
	w.failing.Store(false)
	r.mark = r.first + nextStep
	for _, d := range r.doubts {
		d.onlyInLast()
	}
	if k != nil && k.log != nil {
		w.check(k.log.Remove())
		k.log = nil
	}
}

// check notes and logs an error.
func (w *writeRecords) check(err error) {
	if err != nil {
		w.failed(err)
	}
}

// mayBegin reports whether o, and the operations that joined it, may write: size bytes in all. A write that is refused gets
// its status, and is in no log.
func (o *op) mayBegin(size int) bool {
	if o.c.replay.log == nil || o.doubt != nil {
		return true
	}
	if !o.file.open.MayWrite(int64(o.h.Offset), size) {
		o.status, o.info = ntstatus.FileLockConflict, 0
		return false
	}
	return true
}

// begin notes in the log that o may have an effect from now on.
func (o *op) begin() {
	if log := o.c.replay.log; log != nil && o.doubt == nil {
		r := writelog.Record{Number: o.number, Key: o.file.open.ResumeKey(), Off: int64(o.h.Offset), Length: o.h.Length}
		if o.h.Opcode == wire.OpSetSize {
			r.Length = 0 // it has no bytes that another change could overtake
		}
		o.slot = log.Begin(&r)
	}
}

// end notes the result of o in the log.
func (o *op) end() {
	switch {
	case o.known: // it had no effect
		if o.slot != writelog.None {
			o.c.replay.log.Cancel(o.slot)
		}
	case o.doubt != nil:
		o.doubt.settle(o.status, o.info)
	case o.slot != writelog.None:
		o.c.replay.log.End(o.slot, uint32(o.status), o.info)
	}
}

// Overtaken notes in the log that o must not be done again.
func (o *op) Overtaken() {
	if o.slot != writelog.None {
		o.c.replay.log.Overtake(o.slot)
	}
}

// Overtaken notes in the log that no write of the run must be done again.
func (r *writeRun) Overtaken() {
	r.first.Overtaken()
	for x := r.first.joined.head; x != nil; x = x.next {
		x.Overtaken()
	}
}

// refused returns the status of a write that is refused. If it is in doubt, the first time it may not have been.
func (o *op) refused(s ntstatus.Status) ntstatus.Status {
	if o.doubt != nil && s != ntstatus.Success {
		return ntstatus.RequestOutOfSequence
	}
	return s
}

// doubtOf returns the write in doubt with a number, or nil.
func (r *replayCache) doubtOf(number int64) *doubt {
	for _, d := range r.doubts {
		if d.Number == number {
			return d
		}
	}
	return nil
}

// drop forgets results for good.
func (k *replayResults) drop() (err error) {
	for _, d := range k.doubts {
		d.end()
	}
	if k.log != nil {
		err = k.log.Remove()
	}
	k.log, k.doubts = nil, nil
	return err
}

// close leaves the logs to the next process.
func (t *replayTable) close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kept {
		k := &t.kept[i]
		for _, d := range k.doubts {
			d.end()
		}
		if k.log != nil {
			err = errors.Join(err, k.log.Close())
		}
	}
	t.kept = nil
	return err
}

// load reads the logs that an earlier process has left. The writes in doubt are in progress in the restored opens. The
// caller has restored them, and serves no client yet.
func (t *replayTable) load(w *writeRecords, files *vfs.FS, now time.Time) (results, doubts int) {
	all, err := writelog.Load(w.dir, w.boot, w.failed)
	w.check(err)
	for _, s := range all {
		k := replayResults{id: s.ID, user: s.User, next: s.Next, expires: now.Add(replayLife), log: s.Log}
		if !s.Used && s.Previous != ([8]byte{}) {
			k.previous, k.previousNext = s.Previous, s.PreviousNext
		}
		for i, r := range s.Records {
			if r.Done {
				k.all = append(k.all, replayEntry{r.Number, r.Info, ntstatus.Status(r.Status)})
				continue
			}
			d := &doubt{Record: r, overtaken: r.Overtaken, at: []logPlace{{s.Log, s.Slots[i]}}}
			if !r.Overtaken {
				d.open, d.write = files.InDoubt(r.Key, d, r.Off, int(r.Length))
			}
			k.doubts = append(k.doubts, d)
		}
		k.doubts = openDoubts(k.doubts, k.next)
		results, doubts = results+len(k.all), doubts+len(k.doubts)
		k.all = k.all[max(len(k.all)-maxEarlier, 0):]
		w.check(t.put(k))
	}
	return results, doubts
}
