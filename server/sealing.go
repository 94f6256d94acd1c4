package server

import (
	"errors"
	"fmt"

	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

// The sizes of the sealed messages of a connection, in bytes.
const (
	sealedHeaderSize = wire.HeaderSize + seal.Overhead
	sealedAnswerSize = wire.StatusResponseSize + seal.Overhead
)

// sealing is the protection of a sealed connection. After AUTH each message is a record, and the data
// of reads and writes is sealed. Its fields are nil on a plain connection, and do not change once AUTH
// has passed.
//
// The receive loop opens messages and the data of writes. The goroutine that has read the data of a
// READ seals it. The goroutine that posts seals the answers.
//
// Source: [OP-114b]
type sealing struct {
	in  *seal.Receiver // of the receive loop
	out *seal.Sender
	// request describes the data of the message that the receive loop handles.
	request seal.Descriptor
}

// on reports whether the connection is sealed.
func (s *sealing) on() bool { return s.in != nil }

// confidential reports whether only the two peers can see the data of the connection.
//
// Source: [OP-114]
func (c *conn) confidential() bool {
	return c.sealing.on() || c.fabric.info.Caps.Has(rdma.CapConfidential)
}

// beginSealing makes the connection a sealed one, from the message after AUTH on. The answer to AUTH is plain.
func (c *conn) beginSealing(client, server [seal.KeySize]byte) {
	c.sealing.in, c.sealing.out = seal.NewReceiver(client), seal.NewSender(server, c.engine.keyLimit)
	c.receives.sealed = true
	c.send.seal(c.sealing.out)
}

// open opens the message of a receive entry in place, and the data behind it, and fills in o.size, the
// size of the plain message. An error ends the connection.
func (s *sealing) open(b *receiveBuffers, o *op, entry int32, r *rdma.Result) error {
	record := b.mem[int(entry)*b.layout.header:][:sealedHeaderSize]
	if r.Bytes < len(record) || r.RemoteData != nil {
		return violation("a sealed message of %d bytes", r.Bytes)
	}
	d := &s.request
	if err := s.in.Record(record, d); err != nil {
		return violation("a message: %w", err)
	}
	if n := r.Bytes - len(record); n != d.Transferred() || d.Length() > b.layout.dataSize {
		return violation("a sealed message with %d of %d bytes of data", n, d.Length())
	}
	if err := s.in.Data(d, b.data(entry)[:d.Length()]); err != nil {
		return violation("the data of a message: %w", err)
	}
	o.size = wire.HeaderSize + d.Length()
	return nil
}

// sealData seals the data of a READ in its block. The end of the data goes with the answer.
func (o *op) sealData() {
	s := o.c.sealing.out
	if s == nil || o.data.size == 0 {
		return
	}
	if o.sealed == nil {
		o.sealed = new(seal.Descriptor)
	}
	block := o.c.fabric.buffers.memory(o)[:o.data.size]
	if err := s.Data(o.sealed, block, block); err != nil {
		o.c.cut(usedUp(err))
		o.data.size = 0 // nothing goes out unsealed
		return
	}
	o.data.size = o.sealed.Transferred()
}

// answerSealing seals the answers of a connection. It is guarded by sendQueue.mu.
type answerSealing struct {
	out    *seal.Sender // nil on a plain connection, and before AUTH
	noData seal.Descriptor
}

// on reports whether answers are sealed.
func (s *answerSealing) on() bool { return s.out != nil }

// seal seals the answer of o in place, with the descriptor of its data. An error ends the connection.
//
// Source: [OP-114b]
func (s *answerSealing) seal(answer []byte, o *op) error {
	d := o.sealed
	if d == nil {
		d = &s.noData
	}
	if err := s.out.Record(answer, d); err != nil {
		clear(answer) // nothing goes out unsealed
		return usedUp(err)
	}
	return nil
}

// errUsedUp ends a connection whose key must not seal more. The client replaces it.
var errUsedUp = errors.New("the connection is to be replaced")

// usedUp returns the cause of the end of a connection that cannot seal any more.
func usedUp(err error) error { return fmt.Errorf("%w: %w", errUsedUp, err) }
