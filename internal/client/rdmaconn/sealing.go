package rdmaconn

import (
	"context"
	"fmt"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// sealedHeader and sealedStatus are the sizes of the sealed messages of the client and of the
	// server, less the data, in bytes.
	sealedHeader = wire.HeaderSize + seal.Overhead
	sealedStatus = wire.StatusResponseSize + seal.Overhead
	// sealAtOnce is the number of bytes of data that are sealed before they are posted. The server
	// opens them while the next are sealed.
	sealAtOnce = 128 << 10
	// sealedCopy is the longest read, in bytes, that goes through the memory of the connection. The
	// registration of memory for one READ costs more than a copy of so many bytes.
	sealedCopy = 8 << 10
	// sealedAlign is the alignment of the memory of a sealed message, in bytes.
	sealedAlign = 64
)

// sealing is the protection of a sealed connection. After AUTH each message is a record, and the data
// of reads and writes is sealed. A sealed connection has no status blocks, because a word cannot
// prove its origin, and the memory of Buffers is not exposed on it. The data of a read is opened in memory
// that was closed to the server before, or in a copy if it is small.
//
// The goroutine that posts seals messages and the data of writes. The goroutine that takes
// completions opens answers. The goroutine of the operation opens the data of a read.
//
// Source: [OP-114b]
type sealing struct {
	wanted bool // does not change
	// unanswered is set when a control message got no answer in time.
	unanswered atomic.Bool
	// announced is set when the message that announces the end is posted.
	announced atomic.Bool

	in  *seal.Receiver // set before AUTH is sent; its records are guarded by progress.mu
	out *seal.Sender   // as in; its records belong to the goroutine that posts

	// Guarded by progress.mu.
	answered    bool                        // the server has answered AUTH
	descriptors *[pollBatch]seal.Descriptor // of the answers of a batch
	private     [sealedStatus]byte          // a copy of a message

	memory rdma.Memory // of sealed messages
	mr     rdma.MemoryRegion
	size   int  // bytes of one entry
	ready  bool // the memory is registered
}

// Sealed reports whether the connection is sealed, or ends before it carries data.
func (c *Conn) Sealed() bool { return c.sealing.wanted }

// begin sets the keys, before AUTH is sent.
func (s *sealing) begin(auth *handshake.Auth) {
	client, server := auth.SealKeys()
	s.out, s.in, s.descriptors = seal.NewSender(client, seal.MaxSealed), seal.NewReceiver(server), new([pollBatch]seal.Descriptor)
}

// allocate makes the memory of sealed messages: of n entries with up to most bytes of data.
func (s *sealing) allocate(ctx context.Context, a rdma.Adapter, entries []Request, most int) (err error) {
	s.size = (sealedHeader + most + sealedAlign - 1) / sealedAlign * sealedAlign
	n := len(entries) * s.size
	if s.memory, err = a.Alloc(ctx, n); err != nil {
		return err
	}
	s.mr, err = a.RegisterMemory(ctx, s.memory.Bytes()[:n], 0)
	s.ready = err == nil
	return err
}

// close frees the memory.
func (s *sealing) close() {
	if s.mr != nil {
		s.mr.Close()
	}
	if s.memory != nil {
		s.memory.Close()
	}
}

// room returns the memory of a request for its sealed message.
func (s *sealing) room(index int) []byte { return s.mr.Bytes()[index*s.size:][:s.size:s.size] }

// stage notes the header and the data of a message, to be sealed by seal. The data stays where it is
// until the message is posted.
func (s *sealing) stage(r *Request, h *wire.Header, data *Payload) {
	h.AppendTo(s.room(r.index)[:0])
	r.source = r.source[:0]
	switch {
	case data.Gather != nil:
		for _, g := range data.Gather {
			r.source = append(r.source, g.Region.Bytes()[g.Offset:][:g.Length])
		}
	case data.Region != nil:
		r.source = append(r.source, data.Region.Bytes()[data.Offset:][:data.Length])
	case len(data.Copied) > 0:
		r.source = append(r.source, data.Copied)
	}
	r.staged = true
}

// seal seals a staged message and returns the number of bytes of its data.
func (s *sealing) seal(r *Request, req *rdma.Request) (int, error) {
	if !r.staged { // AUTH
		return 0, nil
	}
	r.staged = false
	room := s.room(r.index)
	record, data := room[:sealedHeader], room[sealedHeader:]
	src := data[:0]
	if len(r.source) == 1 {
		src = r.source[0]
	} else {
		for _, p := range r.source { // the AEAD takes one part
			src = append(src, p...)
		}
	}
	clear(r.source)
	n, d := len(src), &r.outgoing
	*d = seal.Descriptor{}
	if n > 0 {
		if err := s.out.Data(d, data[:n], src); err != nil {
			return 0, err
		}
	}
	if err := s.out.Record(record, d); err != nil {
		return 0, err
	}
	r.sges[0] = rdma.SGE{Region: s.mr, Offset: r.index * s.size, Length: sealedHeader + d.Transferred()}
	req.SGL = r.sges[:1]
	return n, nil
}

// post seals and posts the messages of a batch. The caller is the goroutine that posts.
func (s *sealing) post(q *sendQueue) error {
	for rest := q.batch; len(rest) > 0; {
		n, size := 0, 0
		for ; n < len(rest) && size < sealAtOnce; n++ {
			r := &q.table.entries[rest[n].ID]
			if len(r.source) > 0 && q.life.IsDown() {
				return q.life.err // the memory may belong to the caller again
			}
			sealed, err := s.seal(r, &rest[n])
			if err != nil {
				return err
			}
			size += sealed
		}
		if _, err := q.qp.Post(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// open reads a status message, and the descriptor of the data that belongs to it. The first message,
// which answers AUTH, is plain.
func (s *sealing) open(b []byte, d *seal.Descriptor) error {
	if err := s.in.Record(b, d); err != nil {
		return base.ProtocolError("an answer of the server: %w", err)
	}
	return nil
}

// accept checks that the data of an answer is the data that the request asked for, and gives its
// descriptor to the operation.
func (s *Request) accept(d *seal.Descriptor, a wire.StatusResponse) error {
	want := 0
	if (s.kind == kindRead || s.kind == kindStat || s.kind == kindLookup) && a.Status == 0 {
		want = int(a.Information)
	}
	if d.Length() != want {
		return base.ProtocolError("the server sealed %d bytes of data for an answer with %d", d.Length(), want)
	}
	if s.ticket != nil {
		s.ticket.sealed = *d
	}
	return nil
}

// Open opens the data of a read in place, which is in memory that the server cannot write to any more.
//
// Errors: the error of the connection, which ends; p is then cleared.
func (c *Conn) Open(t *Ticket, p []byte) error {
	if err := c.sealing.in.Data(&t.sealed, p); err != nil {
		c.Fail(base.ProtocolError("the data of a read: %w", err))
		return c.err
	}
	return nil
}

// errNotSealed says that the server cannot protect the connection.
var errNotSealed = fmt.Errorf("encryption is required, and the server does not seal the connection")
