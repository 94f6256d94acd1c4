package stream

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// writer is the calls of a stream that write. Safe for concurrent use.
type writer struct {
	c      *connection
	rx     *receiver
	tx     *sender
	offers *offers
	stage  *stage

	deadline deadline
	finished atomic.Bool // CloseWrite was called

	calls   sync.Mutex          // held by one call; guards the fields below
	offered [MaxDescriptor]byte // descriptor of the program's memory that a Write offers
}

func (w *writer) init(c *connection, rx *receiver, tx *sender, f *offers, g *stage) {
	w.c, w.rx, w.tx, w.offers, w.stage = c, rx, tx, f, g
	w.deadline.wake = func() { c.signal(&c.writeWait) }
}

// Write sends p, and returns the number of bytes that are sent or offered. The number is
// less than len(p) only with an error. Data up to the threshold is copied into control
// messages. Larger data is offered to the peer. If Write offers a copy, it returns when all
// of p is offered. If Write offers p itself, it returns when the peer has fetched p. A Write
// whose deadline passes before asks the peer not to fetch the rest.
//
// Errors: os.ErrDeadlineExceeded; ErrNoBuffers, after which the stream can still be used;
// ErrWriteClosed; net.ErrClosed after Close; ErrPeerClosed; ErrReset; ErrProtocol.
//
// Source: [WSD §5.1], [WSD §5.2], [WSD §5.4]
func (w *writer) Write(p []byte) (n int, err error) {
	w.calls.Lock()
	defer w.calls.Unlock()
	if err = w.writable(); err == nil {
		if len(p) > w.c.cfg.Threshold {
			n, err = w.writeLarge(p)
		} else {
			n, err = w.writeSmall(p)
		}
	}
	w.c.counts.bytesOut.Add(uint64(n))
	return n, err
}

// writable returns why nothing can be written, or nil.
func (w *writer) writable() error {
	switch {
	case w.c.closing.Load():
		return errClosed
	case w.deadline.over.Load():
		return os.ErrDeadlineExceeded
	case w.finished.Load():
		return ErrWriteClosed
	case w.c.peerClosed.Load():
		return ErrPeerClosed
	}
	return w.c.failure()
}

// await calls try until try returns true or an error, or nothing can be written. It waits
// between two calls.
func (w *writer) await(try func() (bool, error)) error {
	for {
		w.c.writeWait.flag.Store(false)
		if err := w.writable(); err != nil {
			return err
		}
		if ok, err := try(); ok || err != nil {
			return err
		}
		w.c.wait(&w.c.writeWait)
	}
}

// awaitBulk is await for a part of a bulk transfer.
func (w *writer) awaitBulk(try func() (bool, error)) error {
	w.c.writeWait.bulk = true
	defer func() { w.c.writeWait.bulk = false }()
	return w.await(try)
}

// awaitSend waits until try has sent a message with data.
func (w *writer) awaitSend(try func() bool) error {
	if w.c.bulkOut.isBulk() {
		return w.awaitBulk(func() (bool, error) { return try(), nil })
	}
	return w.await(func() (bool, error) { return try(), nil })
}

// writeSmall sends data in control messages.
//
// Source: [WSD §5.1]
func (w *writer) writeSmall(p []byte) (n int, err error) {
	m := Message{Type: TypeData}
	for n < len(p) {
		m.Payload = p[n:min(len(p), n+w.tx.room(0))]
		if !w.tx.trySend(&m, keptClass) {
			if err := w.awaitSend(func() bool { return w.tx.trySend(&m, keptClass) }); err != nil {
				return n, err
			}
		}
		n += len(m.Payload)
		w.c.bulkOut.add(len(m.Payload), &w.c.bulkIn)
	}
	return n, nil
}

// WriteUrgent sends p beside the stream: the peer's ReadUrgent gets it while data that was
// written before waits to be read. The peer keeps 16 KiB of it, and drops older urgent data
// that is not read. p is copied. Its errors are the errors of Write.
//
// Source: [WSD §5.5]
func (w *writer) WriteUrgent(p []byte) (int, error) {
	w.calls.Lock()
	defer w.calls.Unlock()
	n := 0
	for n < len(p) {
		m := Message{Type: TypeUrgent, Payload: p[n:min(len(p), n+w.tx.room(0))]}
		if err := w.await(func() (bool, error) { return w.tx.trySend(&m, passingClass), nil }); err != nil {
			return n, err
		}
		n += len(m.Payload)
	}
	return n, w.writable()
}

// CloseWrite ends this side's stream: the peer reads io.EOF after the written data.
//
// Errors: net.ErrClosed after Close, and the error that the stream has failed with.
//
// Source: [WSD §7]
func (w *writer) CloseWrite() error {
	if w.c.closing.Load() {
		return errClosed
	}
	if w.finished.Swap(true) {
		return nil
	}
	w.c.signal(&w.c.writeWait) // a Write that waits gives up
	w.calls.Lock()
	defer w.calls.Unlock()
	if w.c.closing.Load() {
		return errClosed // Close tells the peer that the stream ends
	}
	w.tx.enqueue(Message{Type: TypeShutdown})
	w.tx.flush()
	return w.c.failure()
}

// SetWriteDeadline sets when Write, WriteUrgent and ReadFrom give up, including calls that
// wait already. A Write that gives up returns how many of its bytes are sent.
func (w *writer) SetWriteDeadline(t time.Time) error {
	if w.c.closing.Load() {
		return errClosed
	}
	w.deadline.set(t)
	return nil
}
