package stream

import (
	"errors"
	"io"
)

// ReadFrom writes the data that src returns until its end, and returns the number of bytes.
// While src returns little at a time, ReadFrom reads the size of one control message. Once
// src has filled a message, ReadFrom reads into the stage. So a copy from a silent src holds
// no memory of the stage.
//
// Errors: the errors of src.Read except io.EOF, and the errors of Write.
func (w *writer) ReadFrom(src io.Reader) (n int64, err error) {
	more := false
	for err == nil {
		var k int
		if more {
			k, more, err = w.readPiece(src)
		} else {
			k, more, err = w.readMessage(src)
		}
		n += int64(k)
	}
	if err == io.EOF { //nolint:errorlint // as io.Reader says
		err = nil
	}
	return n, err
}

// readMessage reads the payload of one control message from src, and writes it. more says
// that src has filled the message.
func (w *writer) readMessage(src io.Reader) (n int, more bool, err error) {
	if err := w.writable(); err != nil {
		return 0, false, err
	}
	room := min(w.tx.room(0), w.c.cfg.Threshold)
	if d, ok := w.tx.draft(room); ok {
		k, err := src.Read(d.data)
		n, failed := w.sendDraft(&d, k)
		if failed != nil {
			err = failed
		}
		return n, k == room, err
	}
	c := newChunk(room)
	defer c.drop()
	k, err := src.Read(c.buf[:room])
	n, failed := w.Write(c.buf[:k])
	if failed != nil {
		err = failed
	}
	return n, k == room, err
}

// sendDraft sends the first n bytes of a draft.
func (w *writer) sendDraft(d *draft, n int) (int, error) {
	if n == 0 {
		d.drop()
		return 0, nil
	}
	w.calls.Lock()
	defer w.calls.Unlock()
	if err := w.awaitSend(func() bool { return d.trySend(n) }); err != nil {
		d.drop()
		return 0, err
	}
	w.c.bulkOut.add(n, &w.c.bulkIn)
	w.c.counts.bytesOut.Add(uint64(n))
	return n, nil
}

// readPiece reads a piece of the stage from src, and writes it. more says that src has
// filled the piece. No lock is held while src reads. Close does not wait for src: the last
// user of the memory frees it.
func (w *writer) readPiece(src io.Reader) (n int, more bool, err error) {
	g, err := w.borrowPiece()
	switch {
	case errors.Is(err, errNoStage):
		return w.readMessage(src)
	case err != nil:
		return 0, false, err
	}
	defer w.rx.leave()
	k, err := src.Read(g.buf)
	more = k == len(g.buf)
	w.calls.Lock()
	defer w.calls.Unlock()
	if failed := w.writable(); failed != nil {
		w.stage.give(g)
		return 0, false, failed
	}
	if k > w.c.cfg.Threshold {
		failed := w.offerPiece(g, k, nil)
		if failed != nil {
			return 0, false, failed
		}
		w.c.counts.bytesOut.Add(uint64(k))
		return k, more, err
	}
	k, failed := w.writeSmall(g.buf[:k])
	w.stage.give(g)
	w.c.counts.bytesOut.Add(uint64(k))
	if failed != nil {
		err = failed
	}
	return k, more, err
}

// borrowPiece waits for a piece of the stage. The memory stays until leave.
func (w *writer) borrowPiece() (*piece, error) {
	w.calls.Lock()
	defer w.calls.Unlock()
	g, err := w.awaitPiece()
	if err == nil && !w.rx.enter() {
		w.stage.give(g)
		err = errClosed
	}
	return g, err
}
