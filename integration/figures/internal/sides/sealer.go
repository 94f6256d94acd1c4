package sides

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

// The records of a sealed LWIO connection, in bytes: the message, a descriptor of its data, and a tag. See
// docs/protocol.md.
const (
	tagSize        = 16
	descriptorSize = 32
	requestRecord  = requestSize + descriptorSize + tagSize
	answerRecord   = statusSize + descriptorSize + tagSize
	tailAt         = descriptorSize - tagSize // of the last bytes of the data, in the descriptor
)

// NewAEAD returns AES-128-GCM of the standard library with a key of one repeated byte.
func NewAEAD(key byte) (cipher.AEAD, error) {
	b := make([]byte, 16)
	for i := range b {
		b[i] = key
	}
	block, err := aes.NewCipher(b)
	if err != nil {
		return nil, fmt.Errorf("AES: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("GCM: %w", err)
	}
	return aead, nil
}

// sealer seals and opens the frames of a side: one use of the AEAD for each record, and one for its data.
// The tag of the data takes the place of its last bytes, which travel in the record.
type sealer struct {
	out, in direction
}

// direction has the key and the next number of one direction.
type direction struct {
	aead   cipher.AEAD
	number uint64
	nonce  [12]byte
}

// The kinds of a nonce.
const (
	kindRecord = 0
	kindData   = 1
)

// newSealer returns the sealer of a side.
func newSealer(active bool) (*sealer, error) {
	out, in := byte('C'), byte('S')
	if !active {
		out, in = in, out
	}
	sealing, err := NewAEAD(out)
	if err != nil {
		return nil, err
	}
	opening, err := NewAEAD(in)
	if err != nil {
		return nil, err
	}
	return &sealer{direction{aead: sealing}, direction{aead: opening}}, nil
}

// at returns the nonce of the next record, or of its data.
func (d *direction) at(kind uint32) []byte {
	binary.LittleEndian.PutUint32(d.nonce[:], kind)
	binary.LittleEndian.PutUint64(d.nonce[4:], d.number)
	return d.nonce[:]
}

// seal seals source into data, which may be the same memory, and the record in place.
func (s *sealer) seal(data, source, record []byte) {
	d, plain := &s.out, len(record)-tagSize
	if head := len(data) - tagSize; head > 0 {
		copy(record[plain-descriptorSize+tailAt:plain], source[head:])
		d.aead.Seal(data[:0], d.at(kindData), source[:head], nil)
	}
	d.aead.Seal(record[:0], d.at(kindRecord), record[:plain], nil)
	d.number++
}

// open opens a record and its data in place.
func (s *sealer) open(data, record []byte) error {
	d, plain := &s.in, len(record)-tagSize
	if _, err := d.aead.Open(record[:0], d.at(kindRecord), record, nil); err != nil {
		return fmt.Errorf("record %d: %w", d.number, err)
	}
	if head := len(data) - tagSize; head > 0 {
		if _, err := d.aead.Open(data[:0], d.at(kindData), data, nil); err != nil {
			return fmt.Errorf("data %d: %w", d.number, err)
		}
		copy(data[head:], record[plain-descriptorSize+tailAt:plain])
	}
	d.number++
	return nil
}
