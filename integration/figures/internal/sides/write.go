package sides

import (
	"fmt"

	"lwio/rdma"
)

// writeStream writes Size bytes again and again into the peer's buffers, with Flight writes
// in flight. One call posts Batch writes; the last has a result. The peer sleeps until a
// last message, which it answers, so all writes have arrived.
func writeStream(l *link) error {
	w := l.newWriter()
	err := l.phases(func(ops int) error {
		if l.Active {
			if err := w.write(ops); err != nil {
				return err
			}
		}
		return l.turn(l.sendMessage, func() error { return l.asleep(false) })
	})
	if err != nil {
		return err
	}
	return l.finish()
}

// writer posts the writes of a stream.
type writer struct {
	l    *link
	reqs []rdma.Request // one for each buffer, so that a batch is a part of them
}

// newWriter makes a writer; Buffers is a multiple of Batch.
func (l *link) newWriter() *writer {
	w := &writer{l: l, reqs: make([]rdma.Request, l.Buffers)}
	for i := range w.reqs {
		off := buffers + i*l.Size
		w.reqs[i] = rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: l.sge(off, l.Size), Remote: l.at(off)}
		if i%l.Batch == l.Batch-1 {
			w.reqs[i].Flags = 0
		}
	}
	return w
}

// write writes ops times, rounded up to whole batches.
func (w *writer) write(ops int) error {
	l := w.l
	l.done = 0
	for posted := 0; l.done*l.Batch < ops; {
		for posted < ops && posted+l.Batch <= l.done*l.Batch+l.Flight {
			i := posted % l.Buffers
			if n, err := l.qp.Post(w.reqs[i : i+l.Batch]); err != nil {
				return fmt.Errorf("post took %d of %d: %w", n, l.Batch, err)
			}
			posted += l.Batch
		}
		if err := l.wait(); err != nil {
			return err
		}
	}
	return nil
}
