package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lwio/internal/ntstatus"
)

// replayName is the file of Config.StateDir in which a server that is stopped leaves the results of writes to
// the next one. The next server removes it: after that the results would be those of an older time.
const replayName = "replay"

// replayMagic begins the file. Another format has another one.
const replayMagic = "LWIO replay 1\n\x00\x00"

// errReplayFile reports a file that cannot be used.
var errReplayFile = errors.New("not the results of writes, or damaged")

// save writes the results of ended connections into a file, unless there are none.
//
// Source: [OP-112]
func (t *replayTable) save(dir string, now time.Time) error {
	t.expire(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return nil
	}
	b := []byte(replayMagic)
	b = binary.AppendUvarint(b, uint64(len(t.kept)))
	for i := range t.kept {
		b = t.kept[i].appendTo(b)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	name := filepath.Join(dir, replayName)
	err := os.WriteFile(name+".new", b, 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("server: results of writes: %w", err)
	}
	return nil
}

// load reads the results that an earlier server has left, and removes the file.
func (t *replayTable) load(dir string, now time.Time) error {
	name := filepath.Join(dir, replayName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, os.Remove(name)); err == nil {
		err = t.decode(b)
	}
	if err != nil {
		return fmt.Errorf("server: results of writes: %s: %w", name, err)
	}
	t.expire(now)
	return nil
}

// decode adds the results of a file.
func (t *replayTable) decode(b []byte) error {
	if len(b) < len(replayMagic)+4 || string(b[:len(replayMagic)]) != replayMagic {
		return errReplayFile
	}
	end := len(b) - 4
	if crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return errReplayFile
	}
	d := replayDecoder{b: b[len(replayMagic):end]}
	all := make([]replayResults, 0, min(d.uint(), uint64(len(b))))
	for len(d.b) > 0 && !d.failed {
		all = append(all, d.results())
	}
	if d.failed || len(all) != cap(all) {
		return errReplayFile
	}
	for _, k := range all {
		t.put(k)
	}
	return nil
}

// appendTo appends the encoding of the results of one connection.
func (k *replayResults) appendTo(b []byte) []byte {
	b = append(b, k.id[:]...)
	b = binary.AppendUvarint(b, uint64(len(k.user)))
	b = append(b, k.user...)
	b = binary.AppendVarint(b, k.next)
	b = binary.AppendVarint(b, k.expires.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(k.all)))
	for _, x := range k.all {
		b = binary.AppendVarint(b, x.number)
		b = binary.AppendUvarint(b, uint64(x.info))
		b = binary.AppendUvarint(b, uint64(x.status))
	}
	return b
}

// replayDecoder reads the encoding of results. After a failure it returns zeros.
type replayDecoder struct {
	b      []byte
	failed bool
}

// results reads the results of one connection.
func (d *replayDecoder) results() (k replayResults) {
	copy(k.id[:], d.bytes(uint64(len(k.id))))
	k.user = string(d.bytes(d.uint()))
	k.next = d.int()
	k.expires = time.Unix(0, d.int())
	n := d.uint()
	if n > uint64(maxEarlier) {
		d.failed = true
		return k
	}
	k.all = make([]replayEntry, n)
	for i := range k.all {
		k.all[i] = replayEntry{d.int(), uint32(d.uint()), ntstatus.Status(d.uint())}
	}
	return k
}

// bytes reads n bytes.
func (d *replayDecoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

// uint reads an unsigned number.
func (d *replayDecoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

// int reads a signed number.
func (d *replayDecoder) int() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

// skip skips a number of n bytes; below 1 there was none.
func (d *replayDecoder) skip(n int) {
	if n <= 0 {
		d.failed, d.b = true, nil
		return
	}
	d.b = d.b[n:]
}
