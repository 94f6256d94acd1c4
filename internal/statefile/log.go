package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
)

// Errors of a Log.
var (
	// ErrInUse is the error of a directory that another process has open.
	ErrInUse = errors.New("another server uses the directory")
	// ErrTooLarge is the error of a batch above MaxBatch.
	ErrTooLarge = errors.New("too many changes at once")
)

// Broken reports whether an error of Open or Log.Each is one of the disk: files that are damaged, cannot be read or
// cannot be written. Without the log a program can go on, with a promise less. Other errors ask for a correction of the
// directory.
func Broken(err error) bool {
	if errors.As(err, new(*CorruptError)) {
		return true
	}
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// MaxBatch bounds the encoding of a batch, in bytes. A change takes at most 21 bytes and its value. A
// compaction joins batches in a frame of twice the size.
const MaxBatch = maxPayload / 2

// sizes are the steps of a log, in bytes. Tests make them small.
type sizes struct {
	// chunk is the space that is reserved at a time.
	chunk int64
	// least is the size below which a file is not compacted.
	least int64
	// quantum is the least number of bytes of the old file that each batch compacts.
	quantum int64
}

var defaultSizes = sizes{chunk: 1 << 20, least: 1 << 20, quantum: 1 << 10}

// Log is a set of records in a directory. Safe for concurrent use.
type Log struct {
	sizes    sizes
	boot     string
	instance [16]byte
	rebooted bool
	bound    TimeBound

	mu      sync.Mutex
	dir     directory
	closed  bool
	index   index
	current *logFile
	old     *compaction // nil if no file is being compacted
	// next is the size of current at which it is compacted.
	next        int64
	compactions uint64
	// failed is the last error of a compaction; nil after one that succeeded.
	failed error
	// drops are the groups whose removal could not be written yet.
	drops map[uint64]struct{}
	batch Batch // of drops
}

// Stats is a snapshot of a Log.
type Stats struct {
	// Groups and Records are the numbers of present groups and records.
	Groups, Records int
	// LiveBytes is the size of the present records, and FileBytes that of the files without their
	// reserved space, in bytes.
	LiveBytes, FileBytes int64
	// Compactions counts the compactions that ended. Failure is the error for which the present one
	// does not go on, or nil.
	Compactions uint64
	Failure     error
}

// Open opens the log in the directory path, and makes the directory if there is none. A tail that a crash
// has cut is removed. Records of before a reboot of the host are removed, see Rebooted. The caller closes
// the log.
//
// Errors: ErrInUse; fs.ErrPermission for a directory that other users may read or change; *CorruptError;
// errors.ErrUnsupported on systems other than Linux; failures of the file system.
func Open(path string) (*Log, error) {
	boot, err := hostBootID()
	if err != nil {
		return nil, fmt.Errorf("state: boot id of the host: %w", err)
	}
	d, err := openDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	l, err := openLog(d, boot, defaultSizes)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return l, nil
}

// openLog opens the log in d, which it closes after an error.
func openLog(d directory, boot string, s sizes) (*Log, error) {
	l := &Log{dir: d, sizes: s, drops: make(map[uint64]struct{})}
	if err := l.load(boot); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	l.bound.init(d, boot)
	l.next = l.sizes.nextSize(l.current.tail, l.index.live)
	return l, nil
}

// Rebooted reports whether Open has removed records because the host was started again after they were
// written. The log does not force its writes to the disk, so these records were not complete.
func (l *Log) Rebooted() bool { return l.rebooted }

// BootID returns the number of this run of the host's kernel, of at most 64 bytes.
func (l *Log) BootID() string { return l.boot }

// Instance returns a random number of the directory, which stays until the host is started again.
func (l *Log) Instance() [16]byte { return l.instance }

// TimeBound returns the bound of the times at which this process changes files.
func (l *Log) TimeBound() *TimeBound { return &l.bound }

// Apply makes the changes of b. When it returns nil they outlive the process. After an error none of them
// is made. Batches take effect in the order of the calls.
//
// Errors: ErrTooLarge; fs.ErrClosed; failures of the file system, such as ENOSPC.
func (l *Log) Apply(b *Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(b.frame); {
	case l.closed:
		return fmt.Errorf("state: %w", fs.ErrClosed)
	case n == 0:
		return nil
	case n-frameHeader > MaxBatch:
		return fmt.Errorf("state: %w: %d bytes", ErrTooLarge, n-frameHeader)
	}
	if err := l.flushDropsLocked(); err != nil {
		return err
	}
	if err := l.appendLocked(b); err != nil {
		return err
	}
	l.compactLocked(len(b.frame))
	return nil
}

// Drop removes the records of a group. After an error they come back if the process ends now; the removal
// is repeated before the next batch is written.
func (l *Log) Drop(group uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("state: %w", fs.ErrClosed)
	}
	if l.index.groups[group] != nil {
		l.drops[group] = struct{}{}
	}
	if len(l.drops) == 0 {
		return nil
	}
	if err := l.flushDropsLocked(); err != nil {
		return err
	}
	l.compactLocked(frameHeader + dropSize)
	return nil
}

// flushDropsLocked writes the removals that are due.
func (l *Log) flushDropsLocked() error {
	for len(l.drops) > 0 {
		l.batch.Reset()
		for group := range l.drops {
			if l.batch.drop(group); len(l.batch.frame) > MaxBatch {
				break
			}
		}
		if err := l.appendLocked(&l.batch); err != nil {
			return err
		}
		for group := range l.drops {
			if l.index.groups[group] == nil {
				delete(l.drops, group)
			}
		}
	}
	return nil
}

// appendLocked writes a batch to the current file and applies it to the index.
func (l *Log) appendLocked(b *Batch) error {
	n := len(b.frame)
	if n > frameHeader+maxPayload { // which no Open could read
		return fmt.Errorf("state: %w: %d bytes", ErrTooLarge, n-frameHeader)
	}
	frame := seal(b.frame)
	b.frame = frame[:n] // with its memory
	off, err := l.current.append(frame, l.sizes.chunk)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return l.index.apply(b.frame[frameHeader:], l.current.gen, off+frameHeader)
}

// Each calls f with each record, in no order. value is valid during the call. No Apply and no Drop may run
// at the same time.
//
// Errors: the first error of f; failures of the file system; *CorruptError.
func (l *Log) Each(f func(k Key, value []byte) error) error {
	files := []*logFile{l.current}
	if l.old != nil {
		files = append(files, l.old.file)
	}
	for _, file := range files {
		if err := l.eachOf(file, f); err != nil {
			return err
		}
	}
	return nil
}

// eachOf is Each for the records of one file.
func (l *Log) eachOf(file *logFile, f func(k Key, value []byte) error) error {
	for r := (frameReader{file: file.file, off: fileHeader, end: file.tail}); ; {
		payload, at, err := r.next()
		if isEnd(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		for ops := (operations{payload: payload}); ; {
			o, ok, err := ops.next()
			if err != nil || !ok {
				break // load has checked the operations
			}
			if o.kind == opPut && l.index.holds(o.key, placeOf(o, file.gen, at)) {
				if err := f(o.key, o.value); err != nil {
					return err
				}
			}
		}
	}
}

// placeOf returns the location of a put in the payload at offset at of the file gen.
func placeOf(o operation, gen uint32, at int64) location {
	return location{gen: gen, size: uint32(o.size), off: at + int64(o.at)}
}

// Stats returns the sizes of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Groups: len(l.index.groups), Records: l.index.records, LiveBytes: l.index.live,
		FileBytes: l.current.tail, Compactions: l.compactions, Failure: l.failed,
	}
	if l.old != nil {
		s.FileBytes += l.old.file.tail
	}
	return s
}

// Close closes the files and unlocks the directory. The records stay. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if err := l.closeFiles(); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

func (l *Log) closeFiles() error {
	errs := []error{l.bound.close()}
	if l.current != nil {
		errs = append(errs, l.current.file.Close())
	}
	if l.old != nil {
		errs = append(errs, l.old.file.file.Close())
	}
	return errors.Join(append(errs, l.dir.close())...)
}
