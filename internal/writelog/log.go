package writelog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// The names of files. A file is made under the name of another one with newSuffix.
const (
	prefix    = "writes."
	newSuffix = ".new"
	fileMode  = 0o600
)

// None is the slot of a write that the log does not have.
const None = -1

// Log is the log of a connection. Safe for concurrent use; no method waits for another one for long.
type Log struct {
	path string
	// failed is called once, with the first failure of the file system. The log is not used after it, and its file
	// is removed.
	failed func(error)

	mu     sync.Mutex
	mapped []byte // nil once the log is closed, or has failed
	slots  []slot // of mapped
	ring   int    // slots for the writes of the connection, the first ones
	// free is a queue of the slots of the ring without a write in progress: n of them, from at on. The slot whose write ended first
	// is used first.
	free  []uint32
	at, n int
}

// Config describes a new log.
type Config struct {
	// Dir is the directory.
	Dir string
	Header
	// Next is the number of the first message.
	Next int64
	// Slots is the number of slots of the ring, at most MaxSlots: writes in progress, and results that are kept.
	Slots int
	// Earlier are the writes of earlier connections, at most MaxEarlier.
	Earlier []Record
	// Failed is called once if the file system refuses a store, from any method. It must not call the log.
	Failed func(error)
}

// Unfinished is a log that Load does not find yet.
type Unfinished struct {
	*Log
	made string
}

// Create makes a log. The earlier write with index i is in slot Slots + i. Finish follows.
//
// Errors: failures of the file system; errors.ErrUnsupported on systems other than Linux.
func Create(cfg *Config) (*Unfinished, error) {
	l := &Log{path: nameOf(cfg.Dir, cfg.ID), failed: cfg.Failed, ring: cfg.Slots, free: make([]uint32, cfg.Slots), n: cfg.Slots}
	u := &Unfinished{Log: l, made: l.path + newSuffix}
	for i := range l.free {
		l.free[i] = uint32(i)
	}
	head := make([]byte, headerSize)
	if err := cfg.encode(head, cfg.Slots, len(cfg.Earlier)); err != nil {
		return nil, fmt.Errorf("log of writes: %w", err)
	}
	m, err := create(u.made, fileSize(cfg.Slots, len(cfg.Earlier)))
	if err != nil {
		return nil, fmt.Errorf("log of writes: %w", err)
	}
	l.setMapped(m)
	ok := l.store(func() {
		copy(l.mapped, head)
		for i := range cfg.Earlier {
			l.slots[l.ring+i].begin(&cfg.Earlier[i])
		}
		atomic.StoreUint64(wordAt(l.mapped, offNext), uint64(cfg.Next))
	})
	if !ok {
		return nil, errors.Join(fmt.Errorf("log of writes: %w", errFault), os.Remove(u.made))
	}
	return u, nil
}

// Finish makes Load find the log. After an error there is no log.
func (u *Unfinished) Finish() (*Log, error) {
	if err := os.Rename(u.made, u.path); err != nil {
		return nil, errors.Join(fmt.Errorf("log of writes: %w", err), u.Close(), os.Remove(u.made))
	}
	return u.Log, nil
}

func nameOf(dir string, id [8]byte) string {
	return filepath.Join(dir, prefix+hex.EncodeToString(id[:]))
}

func (l *Log) setMapped(m []byte) { l.mapped, l.slots = m, slotsOf(m[headerSize:]) }

// errFault is the error of a store into mapped memory that the kernel refuses.
var errFault = fmt.Errorf("%w: the file system refuses the store", syscall.EIO)

// store calls f, which stores into the mapped memory. A failure of the file system, which comes as a signal of this
// thread, ends the log. It reports whether f has stored all. Precondition: mu is held, or the log is not shared yet.
func (l *Log) store(f func()) (ok bool) {
	if l.mapped == nil {
		return false
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if ok {
			return
		}
		if e := recover(); e != nil {
			if _, fault := e.(interface{ Addr() uintptr }); !fault {
				panic(e)
			}
			l.fail()
		}
	}()
	f()
	return true
}

// fail ends the log.
func (l *Log) fail() {
	err := errors.Join(errFault, l.unmap(), os.Remove(l.path))
	if l.failed != nil {
		l.failed(fmt.Errorf("log of writes: %s: %w", l.path, err))
	}
}

func (l *Log) unmap() error {
	m := l.mapped
	l.mapped, l.slots = nil, nil
	if m == nil {
		return nil
	}
	return unmap(m)
}

// Begin notes that a write begins: it may have an effect from now on. r has no result. Begin returns the slot of the write, which End or Cancel
// frees; None if the log has failed or no slot is free.
func (l *Log) Begin(r *Record) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == 0 || r.Number < 0 {
		return None
	}
	i := int(l.free[l.at])
	if !l.store(func() { l.slots[i].begin(r) }) {
		return None
	}
	if l.at++; l.at == l.ring {
		l.at = 0
	}
	l.n--
	return i
}

// End notes the result of a write before it is answered.
func (l *Log) End(i int, status, info uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(func() { atomic.StoreUint64(&l.slots[i][wordResult], resultOf(status, info)) })
	l.releaseLocked(i)
}

// Cancel notes that a write had no effect, and will have none.
func (l *Log) Cancel(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(func() { atomic.StoreUint64(&l.slots[i][wordNumber], 0) })
	l.releaseLocked(i)
}

// releaseLocked makes a slot of the ring free. Precondition: mu is held.
func (l *Log) releaseLocked(i int) {
	if i >= l.ring {
		return
	}
	end := l.at + l.n
	if end >= l.ring {
		end -= l.ring
	}
	l.free[end] = uint32(i)
	l.n++
}

// Overtake notes that a write must not be done again.
func (l *Log) Overtake(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(func() { atomic.OrUint64(&l.slots[i][wordLength], overtaken) })
}

// SetNext notes the number of the next message.
func (l *Log) SetNext(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(func() { atomic.StoreUint64(wordAt(l.mapped, offNext), uint64(number)) })
}

// SetUsed notes that a message has arrived.
func (l *Log) SetUsed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(func() { atomic.StoreUint64(wordAt(l.mapped, offUsed), 1) })
}

// Close ends the use of the log, and leaves its file to the next process.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unmap()
}

// Remove closes the log and removes its file.
func (l *Log) Remove() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mapped == nil {
		return nil
	}
	return errors.Join(l.unmap(), os.Remove(l.path))
}

// Saved is a log of an earlier process. The caller closes or removes it. Begin finds no free slot in it.
type Saved struct {
	*Log
	*Contents
}

// Load returns the logs in a directory that were written since the boot of the host. It removes all others. A log
// whose connection another one has replaced is in the log of that one. Precondition: no other process uses the directory.
//
// Errors: damaged files, each of which is removed, and failures of the file system. The logs are those without an error.
func Load(dir, boot string, failed func(error)) (all []Saved, err error) {
	entries, err := os.ReadDir(dir)
	replaced := make(map[[8]byte]bool)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		s, reason := load(name, boot, failed)
		if reason != nil {
			err = errors.Join(err, fmt.Errorf("log of writes: %s: %w", name, reason))
		}
		if s.Log == nil {
			err = errors.Join(err, os.Remove(name))
			continue
		}
		if s.Replaced != ([8]byte{}) {
			replaced[s.Replaced] = true
		}
		all = append(all, s)
	}
	rest := all[:0]
	for _, s := range all {
		if replaced[s.ID] {
			err = errors.Join(err, s.Remove())
			continue
		}
		rest = append(rest, s)
	}
	return rest, err
}

// Discard removes all logs of a directory, in any state. Precondition: no process uses them.
func Discard(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("remove logs of writes: %w", err)
	}
	return nil
}

// load returns a log, without one if the file is unfinished or of another boot.
func load(name, boot string, failed func(error)) (s Saved, err error) {
	if strings.HasSuffix(name, newSuffix) {
		return Saved{}, nil
	}
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return Saved{}, err
	case !info.Mode().IsRegular() || info.Size() > int64(fileSize(MaxSlots, MaxEarlier)):
		return Saved{}, fmt.Errorf("%w: the size", errDamaged)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return Saved{}, err
	}
	c, err := decode(b)
	switch {
	case err != nil:
		return Saved{}, err
	case c.Boot != boot:
		return Saved{}, nil
	case nameOf(filepath.Dir(name), c.ID) != name:
		return Saved{}, fmt.Errorf("%w: the name", errDamaged)
	}
	m, err := open(name, len(b))
	if err != nil {
		return Saved{}, err
	}
	l := &Log{path: name, failed: failed}
	l.setMapped(m)
	return Saved{l, c}, nil
}
