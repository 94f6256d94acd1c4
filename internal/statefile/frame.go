package statefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is the bytes of one batch: the size of the payload (4 bytes), its complement (4), the CRC-32C
// of the payload (4), the payload, and zeros up to a multiple of 8. Zeros follow the last frame, up to the
// end of the file. The first 8 bytes are stored last, at once. So a frame that a crash has cut begins with
// 8 zeros, and any other difference is damage.
const (
	frameCommit = 8 // the bytes that are stored last
	frameHeader = 12

	// maxPayload bounds the payload of a frame, and maxFrame a frame, in bytes.
	maxPayload = 512 << 10
	maxFrame   = (frameHeader + maxPayload + 7) &^ 7
)

// frameSize returns the size of a frame with n bytes of payload.
func frameSize(n int) int { return (frameHeader + n + 7) &^ 7 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errShortOperation = errors.New("an operation is cut off")

// CorruptError reports a file with other bytes than the log has written.
type CorruptError struct {
	// File is the path of the file, Offset the place in it, in bytes.
	File   string
	Offset int64
	// Reason names the damage.
	Reason string
}

// Error names the file, the offset and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// seal completes the frame b: the space of the header, and the payload.
func seal(b []byte) []byte {
	payload := b[frameHeader:]
	binary.LittleEndian.PutUint32(b, uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[4:], ^uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(payload, castagnoli))
	return append(b, make([]byte, frameSize(len(payload))-len(b))...)
}

// frameReader reads the frames of a file in order, through a buffer.
type frameReader struct {
	file file
	off  int64 // of the next frame
	end  int64 // of the readable bytes
	last int64 // begin of the frame before; 0 for none
	torn bool  // after io.EOF: a cut frame begins at off

	buf  []byte
	base int64 // of buf in the file
}

// readerBuffer is the size of the buffer of a frameReader, in bytes.
const readerBuffer = 64 << 10

// next returns the payload of the next frame, valid until the next call, and its offset in the file.
//
// Errors: io.EOF behind the last frame, also if a cut frame follows; *CorruptError; a failed read.
func (r *frameReader) next() (payload []byte, at int64, err error) {
	header, err := r.window(frameHeader)
	if err != nil {
		return nil, 0, err
	}
	if len(header) < frameHeader {
		if len(header) > 0 && (r.end%8 != 0 || !allZero(header)) {
			return nil, 0, r.corrupt("size of the file")
		}
		return nil, 0, r.stop()
	}
	n, complement := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint32(header[4:])
	sum := binary.LittleEndian.Uint32(header[8:])
	switch {
	case n == 0 && complement == 0:
		return nil, 0, r.stop()
	case n != ^complement || n == 0 || n > maxPayload:
		return nil, 0, r.corrupt("size of a frame")
	}
	frame, err := r.window(frameSize(int(n)))
	switch {
	case err != nil:
		return nil, 0, err
	case len(frame) < frameSize(int(n)):
		return nil, 0, r.corrupt("end of the file")
	}
	payload = frame[frameHeader : frameHeader+n]
	if crc32.Checksum(payload, castagnoli) != sum || !allZero(frame[frameHeader+n:]) {
		return nil, 0, r.corrupt("checksum")
	}
	at = r.off + frameHeader
	r.last, r.off = r.off, r.off+int64(len(frame))
	return payload, at, nil
}

func (r *frameReader) corrupt(reason string) error {
	return &CorruptError{File: r.file.Name(), Offset: r.off, Reason: reason}
}

// stop ends the reading at a place without a frame. One cut frame may be there; all bytes behind it are
// zero, or the file is damaged.
func (r *frameReader) stop() error {
	begin := r.off
	defer func() { r.off = begin }()
	for r.off < r.end {
		b, err := r.window(int(min(readerBuffer, r.end-r.off)))
		if err != nil {
			return err
		}
		if !allZero(b) {
			r.torn = true
			if i := bytes.IndexFunc(b, func(c rune) bool { return c != 0 }); r.off+int64(i) >= begin+maxFrame {
				return r.corrupt("bytes behind the last frame")
			}
		}
		r.off += int64(len(b))
	}
	return io.EOF
}

// window returns the next n bytes, or fewer at the end. They are valid until the next call.
func (r *frameReader) window(n int) ([]byte, error) {
	n = int(min(int64(n), r.end-r.off))
	if n == 0 {
		return nil, nil
	}
	if from := r.off - r.base; from < 0 || from+int64(n) > int64(len(r.buf)) {
		if err := r.fill(n); err != nil {
			return nil, err
		}
	}
	from := int(r.off - r.base)
	return r.buf[from : from+n], nil
}

// fill reads at least n bytes from off on into the buffer.
func (r *frameReader) fill(n int) error {
	size := int(min(int64(max(n, readerBuffer)), r.end-r.off))
	if cap(r.buf) < size {
		r.buf = make([]byte, size)
	}
	r.base = r.off
	r.buf = r.buf[:size]
	if _, err := r.file.ReadAt(r.buf, r.off); err != nil {
		r.buf = r.buf[:0]
		if errors.Is(err, io.EOF) {
			err = r.corrupt("the file has become shorter")
		}
		return fmt.Errorf("read at offset %d: %w", r.off, err)
	}
	return nil
}
