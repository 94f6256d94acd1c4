package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"testing"

	"lwio/internal/seal"
	"lwio/internal/wire"
)

// descriptorSize is the size of a descriptor in a record, in bytes.
const descriptorSize = 32

// forger seals messages with any descriptor, as a hostile client with a valid key can.
type forger struct {
	aead    cipher.AEAD
	records uint64
	last    []byte
}

func newForger(t *testing.T, key [seal.KeySize]byte) *forger {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return &forger{aead: aead}
}

// nonce returns the nonce of a kind and a number.
func (f *forger) nonce(kind uint32, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, kind), number)
}

// seal seals a message with a descriptor. data follows the record.
func (f *forger) seal(message, descriptor, data []byte) []byte {
	record := append(bytes.Clone(message), descriptor...)
	f.last = append(f.aead.Seal(nil, f.nonce(0, f.records), record, nil), data...)
	f.records++
	return f.last
}

// message seals a header and its data as the protocol says.
func (f *forger) message(b []byte) []byte {
	header, data := make([]byte, wire.HeaderSize), b[min(wire.HeaderSize, len(b)):]
	copy(header, b)
	d := make([]byte, descriptorSize)
	if len(data) > 0 {
		head := max(len(data)-16, 0)
		binary.LittleEndian.PutUint64(d, f.records)
		binary.LittleEndian.PutUint32(d[8:], uint32(len(data)))
		copy(d[16:], data[head:])
		if data = data[:head]; head > 0 {
			data = f.aead.Seal(nil, f.nonce(1, f.records), data, nil)
		}
	}
	return f.seal(header, d, data)
}

// described seals a header behind a descriptor of any content. The bytes after both are the data, not
// sealed.
func (f *forger) described(b []byte) (msg []byte, opens bool) {
	d, header := make([]byte, descriptorSize), make([]byte, wire.HeaderSize)
	n := copy(d, b)
	n += copy(header, b[n:])
	length := binary.LittleEndian.Uint32(d[8:])
	return f.seal(header, d, b[n:]), length <= 16 && n == len(b)
}

// The kinds of a message of FuzzSealedConnection.
const (
	fuzzSealed    = iota // the bytes are the message, and are sealed
	fuzzRaw              // the bytes are sent as they are
	fuzzChanged          // the bytes are changes of the record of an INTERRUPT
	fuzzRepeated         // the last record again
	fuzzDescribed        // the bytes are a descriptor, a message and data
	fuzzKinds
)

// FuzzSealedConnection feeds a live sealed connection with messages of a client that has the key, and
// of an attacker that has none. No message without a valid seal is handled: the connection ends. Behind
// the seal the demands of FuzzDispatch hold. Input: for each message its kind (1 byte), its size (2
// bytes) and its bytes.
//
// Source: [OP-114b]
func FuzzSealedConnection(f *testing.F) {
	one := func(kind byte, b []byte) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte{kind}, uint16(len(b))), b...)
	}
	message := func(h wire.Header, body ...byte) []byte {
		h = by(h, completion{Cookie: 3})
		return append(h.AppendTo(nil), body...)
	}
	read := message(wire.NewRead(1, 0, wire.RDMARegion{DataVa: 1, DataMh: 2, Length: 4096}))
	write := message(wire.NewWrite(1, 5, 40), make([]byte, 40)...)
	short := message(wire.NewWrite(1, 5, 3), 1, 2, 3)
	for _, list := range [][][]byte{
		{one(fuzzSealed, read), one(fuzzSealed, write), one(fuzzSealed, short), one(fuzzRepeated, nil)},
		{one(fuzzSealed, message(wire.NewClose(1))), one(fuzzSealed, read), one(fuzzSealed, message(wire.NewClose(wire.NoFid)))},
		{one(fuzzSealed, read), one(fuzzChanged, []byte{0, 1})},
		{one(fuzzRaw, read)},
		{one(fuzzDescribed, append(append([]byte{0: 9, 8: 3, 31: 0}, short[:wire.HeaderSize]...), short...))},
		{one(fuzzDescribed, append([]byte{0: 9, 8: 3, 31: 0}, short[:wire.HeaderSize]...))},
		{one(fuzzDescribed, append([]byte{8: 0xFF, 11: 0xFF, 31: 0}, read...))},
	} {
		f.Add(bytes.Join(list, nil))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, qp := newFuzzConn(t)
		key := [seal.KeySize]byte{1}
		c.beginSealing(key, [seal.KeySize]byte{2})
		peer := newForger(t, key)
		for len(in) >= 3 {
			kind, n := in[0]%fuzzKinds, min(int(binary.LittleEndian.Uint16(in[1:])), len(in)-3)
			msg, opens := peer.fuzzed(kind, in[3:3+n])
			in = in[3+n:]
			if len(msg) > sealedHeaderSize+c.fabric.layout.dataSize {
				break
			}
			went := qp.receive(c, msg)
			if went && !opens {
				t.Fatalf("a message of kind %d without a valid seal is handled", kind)
			}
			if !went {
				break
			}
		}
		c.jobs.Wait()
		if err := qp.settle(c); err != nil {
			t.Fatal(err)
		}
		qp.finish(t, c)
	})
}

// fuzzed makes a message, and reports whether it may open.
func (f *forger) fuzzed(kind byte, b []byte) (msg []byte, opens bool) {
	switch kind {
	case fuzzSealed:
		return f.message(b), true
	case fuzzChanged:
		h := by(wire.NewInterrupt(1), completion{Cookie: 6})
		msg = f.message(h.AppendTo(nil))
		for i, x := range b {
			msg[i%len(msg)] ^= x
			opens = opens && x == 0
		}
		return msg, opens || bytes.Equal(b, make([]byte, len(b)))
	case fuzzRepeated:
		return f.last, false
	case fuzzDescribed:
		return f.described(b)
	}
	return b, false
}
