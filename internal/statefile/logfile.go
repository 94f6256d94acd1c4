package statefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// A file of the log begins with a header: magic (8 bytes), version (4), generation (4), zeros (44), the
// CRC-32C of all that (4), and the mark (8): the offset of the end of the frames. Frames follow. The mark is stored
// behind each frame, at once, so a crash leaves it at most one frame behind. Frames that end before the mark
// are damage: without it a file that was cut between two frames, or has lost pages, looks like an older one.
const (
	markOffset  = 64
	markSize    = 8
	fileHeader  = markOffset + markSize
	fileMagic   = "LWIOSTAT"
	fileVersion = 2
	filePrefix  = "log."
)

// logFile is one file of the log.
type logFile struct {
	file  file
	gen   uint32 // generation: the number of the file
	tail  int64  // end of the frames
	space int64  // end of the bytes that the file system has reserved
	// dirty reports that bytes of a failed write may be behind tail.
	dirty bool
}

// nameOf returns the name of the file of a generation.
func nameOf(gen uint32) string { return filePrefix + strconv.FormatUint(uint64(gen), 10) }

// genOf returns the generation of a name of a file; ok is false for another name.
func genOf(name string) (gen uint32, ok bool) {
	digits, found := strings.CutPrefix(name, filePrefix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), found && err == nil && nameOf(uint32(n)) == name
}

// headerOf returns the header of a file without frames.
func headerOf(gen uint32) []byte {
	b := make([]byte, fileHeader)
	copy(b, fileMagic)
	binary.LittleEndian.PutUint32(b[8:], fileVersion)
	binary.LittleEndian.PutUint32(b[12:], gen)
	binary.LittleEndian.PutUint32(b[markOffset-4:], crc32.Checksum(b[:markOffset-4], castagnoli))
	binary.LittleEndian.PutUint64(b[markOffset:], fileHeader)
	return b
}

// createFile makes the file of a generation. It replaces one that was left without a header because its
// removal failed too.
func createFile(d directory, gen uint32, chunk int64) (*logFile, error) {
	f, err := d.create(nameOf(gen))
	if errors.Is(err, fs.ErrExist) {
		if err := d.remove(nameOf(gen)); err != nil {
			return nil, err
		}
		f, err = d.create(nameOf(gen))
	}
	if err != nil {
		return nil, err
	}
	l := &logFile{file: f, gen: gen}
	if _, err := l.append(headerOf(gen), chunk); err != nil {
		f.Close()
		_ = d.remove(nameOf(gen)) // the first error is the one to report
		return nil, err
	}
	return l, nil
}

// append writes a frame, or the header of the file, behind the tail and returns its offset. It reserves space in steps of chunk
// bytes. After an error the tail is as before, and the next call removes the bytes of the failed one.
func (l *logFile) append(b []byte, chunk int64) (off int64, err error) {
	if l.dirty {
		if err := l.clean(); err != nil {
			return 0, err
		}
	}
	end := l.tail + int64(len(b))
	if end > l.space {
		if err := l.reserve(end, chunk); err != nil {
			l.dirty = true
			return 0, err
		}
	}
	if err := l.commit(b, end); err != nil {
		l.dirty = true
		return 0, err
	}
	off, l.tail = l.tail, end
	return off, nil
}

// commit writes b, which ends at end, behind the tail, and then the mark. The first mark is one that a failure has
// left behind; a failure of it comes before b. A failure of the last one leaves it for the next commit.
func (l *logFile) commit(b []byte, end int64) error {
	if l.tail == 0 { // b is the header, with its mark
		return l.file.commit(b, 0)
	}
	if err := l.file.mark(l.tail); err != nil {
		return err
	}
	if err := l.file.commit(b, l.tail); err != nil {
		return err
	}
	_ = l.file.mark(end)
	return nil
}

// clean removes the bytes of a failed write.
//
// Errors: *CorruptError if the file has lost records.
func (l *logFile) clean() error {
	size, err := l.file.size()
	switch {
	case err != nil:
		return err
	case size < l.tail:
		return &CorruptError{File: l.file.Name(), Offset: size, Reason: "the file has become shorter"}
	}
	if err := l.file.truncate(l.tail); err != nil {
		return err
	}
	l.space, l.dirty = l.tail, false
	return nil
}

// reserve makes the file system reserve the bytes up to end, and more if there is space.
func (l *logFile) reserve(end, chunk int64) error {
	for _, step := range []int64{chunk, 4096} {
		space := (end + step - 1) / step * step
		err := l.file.reserve(l.space, space)
		if err == nil {
			l.space = space
			return nil
		}
		if step == 4096 || step == chunk && chunk <= 4096 {
			return err
		}
	}
	return nil
}

// readHeader checks the header of a file of the directory, and returns its mark. The mark is 0 if a crash has cut the
// making of the file.
func readHeader(f file, gen uint32, size int64) (mark int64, err error) {
	b := make([]byte, min(size, fileHeader))
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if len(b) == fileHeader && bytes.Equal(b[:markOffset], headerOf(gen)[:markOffset]) {
		mark = int64(min(binary.LittleEndian.Uint64(b[markOffset:]), math.MaxInt64))
		return max(mark, 1), nil
	}
	switch short := len(b) < fileHeader; {
	case short && !allZero(b):
		return 0, &CorruptError{File: f.Name(), Reason: "header of the file"}
	case short || allZero(b[:frameCommit]):
		r := frameReader{file: f, off: int64(len(b)), end: size}
		if err := r.stop(); !isEnd(err) || r.torn {
			return 0, &CorruptError{File: f.Name(), Reason: "header of the file"}
		}
		return 0, nil
	}
	if version := binary.LittleEndian.Uint32(b[8:]); string(b[:8]) == fileMagic && version != fileVersion && version != 0 {
		return 0, fmt.Errorf("%s: version %d of the state is unknown: %w", f.Name(), version, fs.ErrInvalid)
	}
	return 0, &CorruptError{File: f.Name(), Reason: "header of the file"}
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
