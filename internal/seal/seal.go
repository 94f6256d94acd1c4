// Package seal encrypts and authenticates the messages and the data of one connection of LWIO. It does
// no I/O and knows no message.
//
// Each direction has a key of its own, a Sender at one end and a Receiver at the other. A message
// travels as a record: the message, a Descriptor of the data that belongs to it, and a tag. Records
// are opened in the order in which they were sealed. So a record that was changed, repeated, left out
// or moved does not open. The data has the size of the plain data: the sender seals all of it but
// the last 16 bytes, which travel in the Descriptor, and the tag takes their place. So data is sealed
// and opened in place, and goes straight to where plain data goes.
//
// The AEAD is AES-128-GCM of the standard library. Its nonce is a kind and a number. Records and data
// have separate kinds, and the numbers of each count up from 0. A key is new for each connection. So no
// nonce repeats under a key. A Sender stops before its key has sealed more than MaxSealed bytes.
//
// Nothing allocates after the constructors.
//
// Source: [OP-114b]
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Cipher is the name of the AEAD.
const Cipher = "AES-128-GCM"

const (
	// KeySize is the size of the key of one direction, in bytes.
	KeySize = 16
	// Overhead is the size of a record less the size of its message, in bytes.
	Overhead = descriptorSize + tagSize

	// MaxSealed bounds the bytes that one key seals, where each use of the AEAD counts as 64
	// bytes more. With 2^42 blocks the advantage of an attacker stays below 2^-44.
	MaxSealed = 1 << 46

	descriptorSize = 32
	tagSize        = 16
	tailSize       = 16
	nonceSize      = 12
)

// The kinds of a nonce.
const (
	kindRecord = 0
	kindData   = 1
)

// usage is the number of bytes that a use of the AEAD counts for, beyond the sealed bytes.
const usage = 64

var (
	// ErrForged is the error of a record, or of data, that the peer did not seal, or not at this
	// place.
	ErrForged = errors.New("sealed data does not verify")
	// ErrUsedUp is the error of a key that must not seal more. The next connection has new keys.
	ErrUsedUp = errors.New("the key of the connection is used up")
)

// Descriptor describes the data of a message. It travels in the record of the message:
//
//	0 Number u64   8 Length u32   12 Reserved u32, 0   16 Tail 16 bytes
//
// The zero Descriptor stands for no data.
type Descriptor struct {
	number uint64
	length uint32
	tail   [tailSize]byte
	nonce  [nonceSize]byte // scratch, so that calls of the AEAD allocate nothing
}

// Length returns the number of bytes of the data.
func (d *Descriptor) Length() int { return int(d.length) }

// Transferred returns the number of bytes of the data outside of the record: all, or none if the tail
// holds all of them.
func (d *Descriptor) Transferred() int {
	if d.length <= tailSize {
		return 0
	}
	return int(d.length)
}

// put encodes d.
func (d *Descriptor) put(b []byte) {
	binary.LittleEndian.PutUint64(b, d.number)
	binary.LittleEndian.PutUint32(b[8:], d.length)
	binary.LittleEndian.PutUint32(b[12:], 0)
	copy(b[16:], d.tail[:])
}

// decode decodes d from an opened record.
func (d *Descriptor) decode(b []byte) {
	d.number = binary.LittleEndian.Uint64(b)
	d.length = binary.LittleEndian.Uint32(b[8:])
	copy(d.tail[:], b[16:])
}

// setNonce fills in a nonce: kind u32, number u64.
func setNonce(nonce *[nonceSize]byte, kind uint32, number uint64) {
	binary.LittleEndian.PutUint32(nonce[:], kind)
	binary.LittleEndian.PutUint64(nonce[4:], number)
}

// newAEAD returns the AEAD of one direction.
func newAEAD(key [KeySize]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCM(block); err == nil {
			return aead
		}
	}
	panic(fmt.Sprintf("seal: AES-128-GCM: %v", err)) // the key has the right size
}

// Sender seals one direction of a connection. Data is safe for concurrent use. Record belongs to the
// goroutine that posts, which sends records in the order in which it seals them.
type Sender struct {
	aead    cipher.AEAD
	data    atomic.Uint64 // number of the next data
	sealed  atomic.Uint64 // bytes, and usage for each use of the AEAD
	records uint64        // number of the next record
	limit   uint64        // of sealed
	nonce   [nonceSize]byte
}

// NewSender returns a Sender with a key that no other Sender has. It seals up to limit bytes, at most
// MaxSealed.
func NewSender(key [KeySize]byte, limit uint64) *Sender {
	return &Sender{aead: newAEAD(key), limit: min(limit, MaxSealed)}
}

// use counts n bytes to be sealed.
func (s *Sender) use(n int) error {
	if s.sealed.Add(uint64(n)+usage) > s.limit {
		return ErrUsedUp
	}
	return nil
}

// Data seals src into dst and makes d its descriptor. dst has the size of src. It is the same memory,
// or does not overlap it. The first d.Transferred() bytes of dst are sent.
func (s *Sender) Data(d *Descriptor, dst, src []byte) error {
	n := len(src)
	if err := s.use(n); err != nil {
		return err
	}
	d.number, d.length, d.tail = s.data.Add(1)-1, uint32(n), [tailSize]byte{}
	head := max(n-tailSize, 0)
	copy(d.tail[:], src[head:])
	if head > 0 {
		setNonce(&d.nonce, kindData, d.number)
		s.aead.Seal(dst[:0:n], d.nonce[:], src[:head], nil)
	}
	return nil
}

// Record seals a message in place. b is the message, followed by Overhead bytes of room. d describes
// the data of the message.
func (s *Sender) Record(b []byte, d *Descriptor) error {
	plain := len(b) - tagSize
	if err := s.use(plain); err != nil {
		return err
	}
	d.put(b[plain-descriptorSize:])
	setNonce(&s.nonce, kindRecord, s.records)
	s.records++
	s.aead.Seal(b[:0], s.nonce[:], b[:plain], nil)
	return nil
}

// Receiver opens one direction of a connection. Data is safe for concurrent use, with different
// descriptors. Record belongs to the goroutine that takes messages, in the order of their arrival.
type Receiver struct {
	aead    cipher.AEAD
	records uint64 // number of the next record
	nonce   [nonceSize]byte
}

// NewReceiver returns the Receiver of the Sender with the same key.
func NewReceiver(key [KeySize]byte) *Receiver { return &Receiver{aead: newAEAD(key)} }

// Record opens a record in place and fills in d. The message is b without its last Overhead bytes. No
// peer may write to b any more.
//
// Errors: ErrForged; b is then cleared.
func (r *Receiver) Record(b []byte, d *Descriptor) error {
	if len(b) < Overhead {
		return ErrForged
	}
	setNonce(&r.nonce, kindRecord, r.records)
	if _, err := r.aead.Open(b[:0], r.nonce[:], b, nil); err != nil {
		return ErrForged
	}
	r.records++
	d.decode(b[len(b)-Overhead:])
	return nil
}

// Data opens the d.Length() bytes of p in place. The first d.Transferred() of them have arrived. No
// peer may write to p any more.
//
// Errors: ErrForged; p is then cleared.
func (r *Receiver) Data(d *Descriptor, p []byte) error {
	if len(p) != int(d.length) {
		clear(p)
		return ErrForged
	}
	head := max(len(p)-tailSize, 0)
	if head > 0 {
		setNonce(&d.nonce, kindData, d.number)
		if _, err := r.aead.Open(p[:0], d.nonce[:], p, nil); err != nil {
			clear(p)
			return ErrForged
		}
	}
	copy(p[head:], d.tail[:])
	return nil
}
