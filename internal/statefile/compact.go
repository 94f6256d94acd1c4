package statefile

import "fmt"

// compaction is the copying of the present records of an old file to the current file. Each batch does a
// part of it. Then the old file is removed. The files are read in order, so the current file
// decides about each record that was copied, changed or removed since.
type compaction struct {
	file   *logFile
	reader frameReader
	batch  Batch
	// copied reports that the current file has all records.
	copied bool
	// resume is the size of the current file at which the compaction goes on after a failure.
	resume int64
}

func newCompaction(old *logFile) *compaction {
	return &compaction{file: old, reader: frameReader{file: old.file, off: fileHeader, end: old.tail}}
}

// Compaction begins when the file has compactRatio times the bytes of the present records. For each byte
// of a batch it goes through compactSpeed bytes of the old file.
const (
	compactRatio = 4
	compactSpeed = 4
)

// nextSize returns the size at which the current file is compacted next.
func (s *sizes) nextSize(tail, live int64) int64 {
	return max(s.least, compactRatio*live, tail+s.chunk/2)
}

// compactLocked does the part of the compaction that a batch of n bytes pays for. A failure concerns no
// caller: the log is complete without the compaction. It goes on when the log has grown by a chunk.
func (l *Log) compactLocked(n int) {
	if l.old == nil && l.current.tail < l.next || l.old != nil && l.current.tail < l.old.resume {
		return
	}
	if err := l.compactPart(max(compactSpeed*int64(n), l.sizes.quantum)); err != nil {
		l.failed = fmt.Errorf("state: compaction: %w", err)
		l.next = l.current.tail + l.sizes.chunk
		if l.old != nil {
			l.old.resume = l.next
		}
		return
	}
	l.failed = nil
}

// compactPart begins a compaction, or goes through some bytes of the old file.
func (l *Log) compactPart(budget int64) error {
	c := l.old
	if c == nil {
		if l.current.tail < max(l.sizes.least, compactRatio*l.index.live) {
			l.next = l.sizes.nextSize(0, l.index.live)
			return nil
		}
		f, err := createFile(l.dir, l.current.gen+1, l.sizes.chunk)
		if err != nil {
			return err
		}
		l.old, l.current = newCompaction(l.current), f
		return nil
	}
	if !c.copied {
		if err := l.copyLocked(c, budget); err != nil || !c.copied {
			return err
		}
	}
	if err := l.dir.remove(nameOf(c.file.gen)); err != nil {
		return err
	}
	l.old = nil
	l.compactions++
	l.next = l.sizes.nextSize(0, l.index.live)
	return c.file.file.Close()
}

// copyLocked copies the present records of some bytes of the old file. After an error the next call begins
// at the same place.
func (l *Log) copyLocked(c *compaction, budget int64) (err error) {
	begin, end := c.reader.off, c.reader.off+budget
	defer func() {
		if err != nil {
			c.reader.off, c.copied = begin, false
		}
	}()
	c.batch.Reset()
	for !c.copied && c.reader.off < end && len(c.batch.frame) < maxPayload-MaxBatch {
		payload, at, err := c.reader.next()
		if isEnd(err) {
			c.copied = true
			break
		}
		if err != nil {
			return err
		}
		if err := l.addPresentLocked(c, payload, at); err != nil {
			return err
		}
	}
	return l.appendCopyLocked(c)
}

// addPresentLocked adds the present records of a frame of the old file to the batch. It appends the batch
// first where the next record does not fit into it any more.
func (l *Log) addPresentLocked(c *compaction, payload []byte, at int64) error {
	for ops := (operations{payload: payload}); ; {
		o, ok, err := ops.next()
		if err != nil || !ok {
			return nil // load has checked the operations
		}
		if o.kind != opPut || !l.index.holds(o.key, placeOf(o, c.file.gen, at)) {
			continue
		}
		if len(c.batch.frame)+o.size > frameHeader+maxPayload {
			if err := l.appendCopyLocked(c); err != nil {
				return err
			}
		}
		c.batch.Put(o.key, o.value)
	}
}

// appendCopyLocked appends the batch of a compaction, and empties it.
func (l *Log) appendCopyLocked(c *compaction) error {
	if len(c.batch.frame) == 0 {
		return nil
	}
	if err := l.appendLocked(&c.batch); err != nil {
		return err
	}
	c.batch.Reset()
	return nil
}
