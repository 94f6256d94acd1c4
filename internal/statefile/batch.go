package statefile

import (
	"encoding/binary"
	"fmt"
)

// Key names a record: Item within Group. Log.Drop removes all records of a group.
type Key struct{ Group, Item uint64 }

// Batch is a list of changes that take effect together, or not at all. The zero value is an empty batch.
// A batch may be used again after Reset. Not safe for concurrent use.
type Batch struct {
	frame []byte // the space of a frame header, then operations
}

// Put sets the value of a record. The value is copied.
func (b *Batch) Put(k Key, value []byte) {
	b.begin()
	b.frame = appendPut(b.frame, k, value)
}

// Delete removes a record. A record that is not there stays so.
func (b *Batch) Delete(k Key) {
	b.begin()
	b.frame = append(b.frame, opDelete)
	b.frame = binary.LittleEndian.AppendUint64(b.frame, k.Group)
	b.frame = binary.LittleEndian.AppendUint64(b.frame, k.Item)
}

// drop removes all records of a group.
func (b *Batch) drop(group uint64) {
	b.begin()
	b.frame = append(b.frame, opDrop)
	b.frame = binary.LittleEndian.AppendUint64(b.frame, group)
}

// Reset removes all changes from the batch, and keeps its memory.
func (b *Batch) Reset() { b.frame = b.frame[:0] }

func (b *Batch) begin() {
	if len(b.frame) == 0 {
		b.frame = append(b.frame, make([]byte, frameHeader)...)
	}
}

// Operations of a frame: kind (1 byte), group (8), then, except for opDrop, item (8), then, for opPut,
// the size of the value (4) and the value. Numbers are little-endian.
const (
	opPut    = 1
	opDelete = 2
	opDrop   = 3

	putSize    = 1 + 8 + 8 + 4 // without the value
	deleteSize = 1 + 8 + 8
	dropSize   = 1 + 8
)

func appendPut(b []byte, k Key, value []byte) []byte {
	b = append(b, opPut)
	b = binary.LittleEndian.AppendUint64(b, k.Group)
	b = binary.LittleEndian.AppendUint64(b, k.Item)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// operation is one change. value is valid as long as the frame.
type operation struct {
	kind  byte
	key   Key
	value []byte
	at    int // offset in the payload of the frame
	size  int // of its encoding, in bytes
}

// operations reads the operations of a payload.
type operations struct {
	payload []byte
	at      int
}

// next returns the next operation; ok is false behind the last one.
//
// Errors: an operation that is cut off, or of an unknown kind.
func (r *operations) next() (o operation, ok bool, err error) {
	b := r.payload[r.at:]
	if len(b) == 0 {
		return operation{}, false, nil
	}
	o.kind, o.at = b[0], r.at
	switch o.kind {
	case opPut:
		o.size = putSize
	case opDelete:
		o.size = deleteSize
	case opDrop:
		o.size = dropSize
	default:
		return operation{}, false, fmt.Errorf("unknown operation %d", o.kind)
	}
	if len(b) < o.size {
		return operation{}, false, errShortOperation
	}
	o.key.Group = binary.LittleEndian.Uint64(b[1:])
	if o.kind != opDrop {
		o.key.Item = binary.LittleEndian.Uint64(b[9:])
	}
	if o.kind == opPut {
		n := binary.LittleEndian.Uint32(b[17:])
		if uint64(n) > uint64(len(b)-putSize) {
			return operation{}, false, errShortOperation
		}
		o.size += int(n)
		o.value = b[putSize:o.size]
	}
	r.at += o.size
	return o, true, nil
}
