//go:build linux

package shm

import (
	"runtime/debug"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// loneRead is up to how many bytes of a file are read while others wait for the lock of the
// queue: that takes little longer than to let go of it and to take it again.
const loneRead = 8 << 10

// lone is a short write from a file, and the brief write behind it by which the peer learns
// of it: what answers a request that came alone. Nothing else is done between the two, as
// the peer waits for the second. It belongs to who holds the lock of an idle queue.
type lone struct {
	file *rdma.Request
	dst  []byte          // of file
	to   rdma.RemoteAddr // of the brief write
	data []byte          // of that
	done int             // how many are
	cold bool            // the file's pages are not in memory
	fn   func(fd uintptr)
}

// postLoneLocked does two such requests, if nothing is before them and the peer's memory can
// be reached, and tells how many it did. If that is none, StatusDeviceBusy says that the
// file's pages are not in the page cache, StatusSuccess that the first goes another way.
func (qp *queuePair) postLoneLocked(reqs []rdma.Request) (int, rdma.Status) {
	if len(reqs) != 2 || qp.staged || qp.Initiator.Sending || qp.Initiator.Done != qp.Initiator.Requests.Tail || qp.reads.Len() > 0 || qp.answers.Len() > 0 {
		return 0, rdma.StatusSuccess
	}
	file, word := &reqs[0], &reqs[1]
	const way = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	length, status := qp.checkLocked(file)
	if status != rdma.StatusSuccess || file.Flags != way || length == 0 || length > loneRead {
		return 0, rdma.StatusSuccess
	}
	if length, status = qp.checkLocked(word); status != rdma.StatusSuccess || length > briefWrite || !plainWrite(word, length) {
		return 0, rdma.StatusSuccess
	}
	t := &qp.conn.Load().tx
	switch err := t.placeLone(file, word); {
	case err != nil:
		t.fail(err)
		return 0, rdma.StatusSuccess
	case t.lone.cold:
		return 0, rdma.StatusDeviceBusy
	case t.lone.done == 2:
		qp.skipLocked(qp.Initiator.Requests.Push(), word)
	}
	return t.lone.done, rdma.StatusSuccess
}

// placeLone puts both into their places, as far as those can be reached.
func (t *sender) placeLone(file, word *rdma.Request) (err error) {
	l, f := &t.lone, file.File.(*fileSource)
	if l.done, l.cold = 0, false; !f.mu.TryRLock() {
		return nil // somebody closes it
	}
	defer f.mu.RUnlock()
	if f.closed.Load() || !t.out.OnlySends() {
		return nil
	}
	defer func() { l.file, l.dst, l.data = nil, nil, nil }()
	defer t.endPlacing(debug.SetPanicOnFault(true), &err)
	if l.data = word.Inline; word.Flags&rdma.FlagInline == 0 {
		piece := &word.SGL[0]
		if !t.hold(t.c.a.Domain.RegionOf(piece.Region)) {
			return nil
		}
		l.data = t.held.Bytes()[piece.Offset : piece.Offset+piece.Length]
	}
	l.dst = t.c.hold(file.Remote.Addr, uint32(file.Remote.Token), file.FileLength, ring.SlotWrite)
	if l.dst == nil {
		return nil
	}
	l.file, l.to = file, word.Remote
	l.cold = f.raw.Control(l.fn) != nil || l.done == 0
	return nil
}

// placeWithFile is the part of placeLone that has the descriptor.
func (t *sender) placeWithFile(fd uintptr) {
	l := &t.lone
	if !t.reader.readAll(fd, l.file.File.(*fileSource), l.dst, l.file.FileOffset) {
		return
	}
	l.done = 1
	if dst := t.c.hold(l.to.Addr, uint32(l.to.Token), len(l.data), ring.SlotWrite); dst != nil {
		softrdma.Place(dst, l.data, &t.c.targets.fence)
		l.done = 2
	}
}
