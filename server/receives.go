package server

import (
	"context"
	"fmt"

	"lwio/internal/host"
	"lwio/internal/wire"
	"lwio/rdma"
)

// layout describes the memory of a connection. Headers and answers are together, and data has pages
// of its own, so a connection without writes touches two pages.
//
// Source: [OP-61] [OP-61c]
type layout struct {
	credits, depth        int // most credits, initiator requests
	ahead, receives       int // receives beyond the credits; all receives
	header, answer        int // sizes of a header and of an answer, sealed if that is possible
	answers, auth, data   int // offsets; headers are at 0
	dataSize, total, most int // bytes of data of a receive, of all memory; operations
	weight                int // memory of a receive, in units of creditPool
	wire                  wire.Limits
}

// newLayout returns the layout of the connections of an adapter, and the limits of the
// messages that fit into it.
func newLayout(l *Limits, info rdma.AdapterInfo) layout {
	y := layout{dataSize: l.MaxRecvBufferSize}
	if info.Caps.Has(rdma.CapDirectFile) {
		y.ahead = 1 // see sendQueue.postClaimed
	}
	y.credits = min(l.MaxCredits, info.MaxReceiveQueueDepth-y.ahead)
	y.receives = y.credits + y.ahead
	if info.Caps.Has(rdma.CapByReference) {
		y.dataSize = l.MaxByReferenceSize
	}
	y.weight = (y.dataSize + l.MaxRecvBufferSize - 1) / l.MaxRecvBufferSize
	y.wire = wire.Limits{MaxRecvBufferSize: uint32(y.dataSize), MaxRdmaWindowSize: uint32(l.MaxRDMAWindowSize)}
	y.depth = min(2*y.credits+64, info.MaxInitiatorQueueDepth)
	y.most = y.receives + y.depth + 1
	y.header, y.answer = wire.HeaderSize, wire.StatusResponseSize
	if !info.Caps.Has(rdma.CapConfidential) {
		y.header, y.answer = sealedHeaderSize, sealedAnswerSize
	}
	y.answers = wholePages(y.receives * y.header)
	y.auth = y.answers + y.most*y.answer
	y.data = wholePages(y.auth + wire.AuthBufferSize)
	y.total = y.data + y.receives*y.dataSize
	return y
}

// receiveBuffers is one mapping with the receive buffers and the answers of a connection. It is
// registered for local writes only. The receive loop owns it; the memory of an answer belongs to
// its operation.
type receiveBuffers struct {
	layout *layout
	region rdma.MemoryRegion
	mem    []byte
	// pageable: the pages of a buffer may be returned to the system while the memory is
	// registered.
	pageable bool
	sealed   bool    // receives are posted for sealed messages
	spare    []int32 // receive entries without a posted receive
	room     int     // bytes of data of a posted receive
}

// authRoom is the data of a receive before AUTH, in bytes: more than any AUTH has.
const authRoom = pageSize

// newReceiveBuffers returns buffers without memory. All receive entries are spare.
func newReceiveBuffers(f *fabric) receiveBuffers {
	b := receiveBuffers{layout: &f.layout, pageable: f.info.Caps.Has(rdma.CapPageable), room: f.layout.dataSize}
	if f.layout.ahead == 0 { // else a receive that is posted before AUTH stays posted
		b.room = authRoom
	}
	for entry := b.layout.receives - 1; entry >= 0; entry-- {
		b.spare = append(b.spare, int32(entry))
	}
	return b
}

// open maps and registers the memory. The caller closes b, also after an error.
func (b *receiveBuffers) open(ctx context.Context, a rdma.Adapter) (err error) {
	if b.mem, err = mapPages(b.layout.total); err != nil {
		return fmt.Errorf("allocate receive buffers: %w", err)
	}
	if b.region, err = a.RegisterMemory(ctx, b.mem, rdma.AccessLocalWrite); err != nil {
		return fmt.Errorf("register receive buffers: %w", err)
	}
	return nil
}

// close frees the memory. No receive may be posted.
func (b *receiveBuffers) close() {
	if b.region != nil {
		b.region.Close()
	}
	if b.mem != nil {
		_ = unmapPages(b.mem)
		b.mem = nil
	}
}

// header returns the header that a receive entry received.
func (b *receiveBuffers) header(entry int32) []byte {
	at := int(entry) * b.layout.header
	return b.mem[at : at+wire.HeaderSize]
}

// headerSize returns the size of the headers that receives are posted for.
func (b *receiveBuffers) headerSize() int {
	if b.sealed {
		return sealedHeaderSize
	}
	return wire.HeaderSize
}

// data returns the memory for the data of a receive entry, which follows the header.
func (b *receiveBuffers) data(entry int32) []byte {
	at := b.layout.data + int(entry)*b.layout.dataSize
	return b.mem[at : at+b.layout.dataSize : at+b.layout.dataSize]
}

// answer returns the memory of an operation's answer, as an empty slice, and its offset in the
// region.
func (b *receiveBuffers) answer(index uint32) (place []byte, offset int) {
	at := b.layout.answers + int(index)*b.layout.answer
	return b.mem[at : at : at+b.layout.answer], at
}

// authAnswer returns the memory of the parameters that answer AUTH, as an empty slice.
func (b *receiveBuffers) authAnswer() []byte {
	at := b.layout.auth
	return b.mem[at : at : at+wire.AuthBufferSize]
}

// post posts the receives of n spare receive entries.
func (b *receiveBuffers) post(qp rdma.QueuePair, n int) error {
	w := takeWorkRequests()
	defer w.put()
	for ; n > 0; n-- {
		entry := b.spare[len(b.spare)-1]
		b.spare = b.spare[:len(b.spare)-1]
		if len(w.recvs) == cap(w.recvs) {
			if err := w.postReceives(qp); err != nil {
				return err
			}
		}
		w.receive(b, entry)
	}
	return w.postReceives(qp)
}

// retire makes the receive entry of a finished receive spare. It returns the pages of its data to
// the system, if the provider allows that.
//
// Source: [OP-61c]
func (b *receiveBuffers) retire(entry int32) {
	b.spare = append(b.spare, entry)
	if b.pageable {
		host.DiscardPages(b.data(entry))
	}
}
