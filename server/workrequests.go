package server

import (
	"sync"

	"lwio/rdma"
)

// workRequests collects work requests and receives that are posted together. It belongs to one
// goroutine at a time. It comes from a pool, so an idle connection has none.
type workRequests struct {
	reqs     []rdma.Request
	sges     []rdma.SGE
	recvs    []rdma.ReceiveRequest
	recvSGEs []rdma.SGE
	silent   int // requests after the last one with a completion
	answers  int // answers among these; their operations end with the next completion
	used     int // most requests or receives of one post, since the last put
}

// workRequestsSize is the number of requests that are posted at a time.
const workRequestsSize = 64

var workRequestsPool = sync.Pool{New: func() any {
	return &workRequests{
		reqs: make([]rdma.Request, 0, workRequestsSize), sges: make([]rdma.SGE, 0, workRequestsSize),
		recvs: make([]rdma.ReceiveRequest, 0, workRequestsSize), recvSGEs: make([]rdma.SGE, 0, 2*workRequestsSize),
	}
}}

func takeWorkRequests() *workRequests { return workRequestsPool.Get().(*workRequests) }

// put clears the references of w and returns it to the pool.
func (w *workRequests) put() {
	clear(w.reqs[:w.used])
	clear(w.sges[:w.used])
	clear(w.recvs[:w.used])
	clear(w.recvSGEs[:2*w.used])
	w.used = 0
	workRequestsPool.Put(w)
}

// empty removes the posted requests.
func (w *workRequests) empty() { w.reqs, w.sges = w.reqs[:0], w.sges[:0] }

// The ID of an initiator request holds, from the highest bits: the meaning of its completion; the
// number of answers that the completion confirms, whose operations end; the number of entries that
// the completion frees; the index of the operation of the request.
const (
	idAnswer   uint64 = iota << 56 // the last answer of the connection, or a notice, has been sent
	idPart                         // a part of data has been sent, and another part follows
	idProgress                     // no operation: only answers and entries
	idDirect                       // bytes of a file are in the client's memory
	idKind     uint64 = 0xFF << 56
	idAnswers         = 44
	idEntries         = 32
	idCount           = 1<<12 - 1
)

// requestID returns the ID of an initiator request.
func requestID(kind uint64, entries, answers int, index uint32) uint64 {
	return kind | uint64(answers)<<idAnswers | uint64(entries)<<idEntries | uint64(index)
}

// full reports whether w holds as many requests as are posted at a time.
func (w *workRequests) full() bool { return len(w.reqs) == cap(w.reqs) }

// next appends an empty request. Requests are large and are built in place.
func (w *workRequests) next() *rdma.Request {
	w.reqs = append(w.reqs, rdma.Request{})
	return &w.reqs[len(w.reqs)-1]
}

// add appends a request of length bytes of a region, without a completion. The caller sets the
// other fields.
func (w *workRequests) add(op rdma.Op, region rdma.MemoryRegion, offset, length int) *rdma.Request {
	w.sges = append(w.sges, rdma.SGE{Region: region, Offset: offset, Length: length})
	r := w.next()
	r.Op, r.SGL, r.Flags = op, w.sges[len(w.sges)-1:], rdma.FlagSilentSuccess
	w.silent++
	return r
}

// signal gives the last request a completion.
func (w *workRequests) signal(kind uint64, index uint32) {
	r := &w.reqs[len(w.reqs)-1]
	r.Flags &^= rdma.FlagSilentSuccess
	r.ID = requestID(kind, w.silent, w.answers, index)
	w.silent, w.answers = 0, 0
}

// receive appends the receive of a receive entry. The header and the data go to different places.
func (w *workRequests) receive(b *receiveBuffers, entry int32) {
	y := b.layout
	n := len(w.recvSGEs)
	w.recvSGEs = append(w.recvSGEs,
		rdma.SGE{Region: b.region, Offset: int(entry) * y.header, Length: b.headerSize()},
		rdma.SGE{Region: b.region, Offset: y.data + int(entry)*y.dataSize, Length: b.room})
	w.recvs = append(w.recvs, rdma.ReceiveRequest{ID: uint64(entry), SGL: w.recvSGEs[n:]})
}

// postReceives posts the collected receives.
func (w *workRequests) postReceives(qp rdma.QueuePair) error {
	if len(w.recvs) == 0 {
		return nil
	}
	w.used = max(w.used, len(w.recvs))
	_, err := qp.PostReceive(w.recvs)
	w.recvs, w.recvSGEs = w.recvs[:0], w.recvSGEs[:0]
	return err
}

// post posts the collected requests. Receives are first: an answer allows the client to send, and
// then the receive must be posted already.
//
// Source: [OP-66b]
func (w *workRequests) post(qp rdma.QueuePair) error {
	if err := w.postReceives(qp); err != nil {
		return err
	}
	w.used = max(w.used, len(w.reqs))
	_, err := qp.Post(w.reqs)
	return err
}
