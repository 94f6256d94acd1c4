package smbserver

import (
	"encoding/binary"
	"errors"
	"time"

	"lwio/vfs"
)

// openRecord is the part of a durable open from which another process of the server makes it again.
type openRecord struct {
	client, guid [16]byte
	app          [16]byte // the instance of the application; zero for none
	user, domain string
	timeout      time.Duration
	action       vfs.Action
	file         vfs.Record
	// other is the path after a rename that is in progress, or "".
	other    string
	deleting bool // the close of the open makes the delete of the file pending
	unsynced bool // the disk has failed at a sync, and the client may not know it
	closed   bool // the close of the open has begun, and perhaps not the delete that it makes
}

// equal reports whether two records of one open are equal: only these fields change.
func (r *openRecord) equal(o *openRecord) bool {
	return r.file.Path == o.file.Path && r.other == o.other && r.deleting == o.deleting && r.unsynced == o.unsynced && r.closed == o.closed
}

// recordVersion is the first byte of a record. Records of the version before have no app.
const recordVersion = 2

// Flags of a record.
const (
	recordDeleting = 1 << iota
	recordUnsynced
	recordClosed
)

// errRecord is the error of a record that this server cannot read.
var errRecord = errors.New("the record of an open has another form")

// appendTo appends the record to b: numbers in little-endian order, and texts behind their sizes (4
// bytes).
func (r *openRecord) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	text := func(s string) { b = append(le.AppendUint32(b, uint32(len(s))), s...) }
	b = append(b, recordVersion)
	b = append(append(append(append(b, r.client[:]...), r.guid[:]...), r.file.Key[:]...), r.app[:]...)
	b = le.AppendUint64(b, uint64(r.timeout))
	for _, n := range []uint32{uint32(r.action), uint32(r.file.Granted), uint32(r.file.ShareMode), uint32(r.file.Options)} {
		b = le.AppendUint32(b, n)
	}
	flags := byte(0)
	if r.deleting {
		flags |= recordDeleting
	}
	if r.unsynced {
		flags |= recordUnsynced
	}
	if r.closed {
		flags |= recordClosed
	}
	b = append(b, flags)
	for _, s := range []string{r.user, r.domain, r.file.Share, r.file.Path, r.other, string(r.file.Identity)} {
		text(s)
	}
	return b
}

// decodeOpenRecord decodes a record. The result does not refer to b.
func decodeOpenRecord(b []byte) (openRecord, error) {
	d := recordReader{b: b}
	var r openRecord
	version := d.take(1)[0]
	if version != recordVersion && version != recordVersion-1 {
		return r, errRecord
	}
	copy(r.client[:], d.take(16))
	copy(r.guid[:], d.take(16))
	copy(r.file.Key[:], d.take(24))
	if version == recordVersion {
		copy(r.app[:], d.take(16))
	}
	r.timeout = time.Duration(d.uint64())
	r.action, r.file.Granted = vfs.Action(d.uint32()), vfs.Access(d.uint32())
	r.file.ShareMode, r.file.Options = vfs.ShareMode(d.uint32()), vfs.Options(d.uint32())
	flags := d.take(1)[0]
	r.deleting, r.unsynced, r.closed = flags&recordDeleting != 0, flags&recordUnsynced != 0, flags&recordClosed != 0
	r.user, r.domain, r.file.Share = d.text(), d.text(), d.text()
	r.file.Path, r.other, r.file.Identity = d.text(), d.text(), []byte(d.text())
	if d.short || len(d.b) > 0 || r.timeout < 0 || flags&^(recordDeleting|recordUnsynced|recordClosed) != 0 {
		return r, errRecord
	}
	return r, nil
}

// recordReader reads the parts of a record. After its end the parts are zero, and short is set.
type recordReader struct {
	b     []byte
	short bool
}

func (d *recordReader) take(n int) []byte {
	if n > len(d.b) {
		d.short, d.b = true, nil
		return make([]byte, min(n, 24))
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *recordReader) uint32() uint32 { return binary.LittleEndian.Uint32(d.take(4)) }
func (d *recordReader) uint64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *recordReader) text() string {
	n := d.uint32()
	if uint64(n) > uint64(len(d.b)) {
		d.short, d.b = true, nil
		return ""
	}
	return string(d.take(int(n)))
}

// lockRecordSize is the size of the record of a lock: offset, length, and 1 for an exclusive lock.
const lockRecordSize = 17

func appendLock(b []byte, l vfs.Lock) []byte {
	b = binary.LittleEndian.AppendUint64(b, l.Off)
	b = binary.LittleEndian.AppendUint64(b, l.Len)
	if l.Exclusive {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeLock(b []byte) (vfs.Lock, error) {
	if len(b) != lockRecordSize || b[16] > 1 {
		return vfs.Lock{}, errRecord
	}
	r := vfs.Range{Off: binary.LittleEndian.Uint64(b), Len: binary.LittleEndian.Uint64(b[8:])}
	return vfs.Lock{Range: r, Exclusive: b[16] == 1}, nil
}
