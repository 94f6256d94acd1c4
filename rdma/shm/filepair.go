//go:build linux

package shm

import (
	"runtime/debug"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// pairRead is the largest part of a file, in bytes, that is read with the lock of the
// initiator queue held. Reading it takes little longer than to release and take the lock.
const pairRead = 8 << 10

// filePair is a short write from a file, followed by the short write that announces it:
// the answer to a single request. Both are carried out without other work between them,
// because the peer waits for the second write.
type filePair struct {
	file *rdma.Request
	dst  []byte          // of file
	to   rdma.RemoteAddr // of the second write
	data []byte          // of the second write
	done int             // completed writes
	cold bool            // the file's pages are not in memory

	place func(fd uintptr) // placePair
}

// postPairLocked carries out a file pair, if no request precedes it and the peer's memory
// can be accessed directly. It returns the number of completed writes. If it returns 0,
// StatusDeviceBusy means that the file's pages are not in the page cache, and
// StatusSuccess that the first write must be carried out in another way.
func (qp *queuePair) postPairLocked(reqs []rdma.Request) (int, rdma.Status) {
	q := &qp.Initiator
	if len(reqs) != 2 || qp.staged || q.Sending || q.Done != q.Requests.Tail || qp.reads.Len() > 0 || qp.peerReads.Len() > 0 {
		return 0, rdma.StatusSuccess
	}
	file, word := &reqs[0], &reqs[1]
	const flags = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	length, status := qp.checkLocked(file)
	if status != rdma.StatusSuccess || file.Flags != flags || length == 0 || length > pairRead {
		return 0, rdma.StatusSuccess
	}
	if length, status = qp.checkLocked(word); status != rdma.StatusSuccess || length > compactMax || !plainWrite(word, length) {
		return 0, rdma.StatusSuccess
	}
	t := &qp.conn.Load().tx
	pair := &t.files.pair
	switch err := t.files.tryPair(file, word); {
	case err != nil:
		t.fail(err)
		return 0, rdma.StatusSuccess
	case pair.cold:
		return 0, rdma.StatusDeviceBusy
	case pair.done == 2:
		qp.sentLocked(q.Requests.Push(), word)
	}
	return pair.done, rdma.StatusSuccess
}

// tryPair places both writes, if their targets can be accessed directly.
func (w *fileWriter) tryPair(file, word *rdma.Request) (err error) {
	t, l, f := w.t, &w.pair, file.File.(*fileSource)
	if l.done, l.cold = 0, false; !f.TryBegin() {
		return nil
	}
	defer f.End()
	if !t.out.OnlySends() {
		return nil
	}
	defer func() { l.file, l.dst, l.data = nil, nil, nil }()
	defer t.endPlacing(debug.SetPanicOnFault(true), &err)
	if l.data = word.Inline; word.Flags&rdma.FlagInline == 0 {
		piece := &word.SGL[0]
		if !t.data.held.hold(t.c.a.Domain.RegionOf(piece.Region)) {
			return nil
		}
		l.data = t.data.held.g.Bytes()[piece.Offset : piece.Offset+piece.Length]
	}
	l.dst = t.c.mappings.acquire(file.Remote.Addr, uint32(file.Remote.Token), file.FileLength, ring.SlotWrite)
	if l.dst == nil {
		return nil
	}
	l.file, l.to = file, word.Remote
	l.cold = f.Raw.Control(l.place) != nil || l.done == 0
	return nil
}

// placePair is the body of tryPair, called with the descriptor.
func (w *fileWriter) placePair(fd uintptr) {
	l, maps := &w.pair, &w.t.c.mappings
	if !w.t.data.reader.readAll(fd, l.file.File.(*fileSource), l.dst, l.file.FileOffset) {
		return
	}
	l.done = 1
	if dst := maps.acquire(l.to.Addr, uint32(l.to.Token), len(l.data), ring.SlotWrite); dst != nil {
		softrdma.Place(dst, l.data, &maps.fence)
		l.done = 2
	}
}
