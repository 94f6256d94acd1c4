// Package ledger records the writes that the blocks of a file may hold, and compares reads
// with them. Each block holds its file and place, the number of its write, and a checksum.
//
// A write is acknowledged, refused, or its outcome is unknown. A read, or the file at rest, must
// hold each acknowledged write until the next one, may hold a write whose outcome is unknown, and
// must not hold a refused one.
package ledger

import (
	"fmt"
	"slices"
	"sync"
)

// Ledger is the record of a part of a file. One write at a time is in progress there, and any number
// of reads.
type Ledger struct {
	// File and First are the number of the file and the index of the first block, as Fill takes them.
	File  uint32
	First int
	// Volatile: an acknowledged write is lost with the power until Synced. Without it PowerCut loses no
	// acknowledged write.
	Volatile bool
	// Turn is held by the writer.
	Turn sync.Mutex

	mu     sync.Mutex // guards the fields below
	blocks []history
	now    flight
	cut    uint64 // the newest write at the last loss of power
}

// flight is the newest write. It is in progress while n > 0, in n blocks from block at of the part on.
type flight struct {
	write uint64
	at, n int
}

func (f flight) has(block int) bool { return block >= f.at && block < f.at+f.n }

// history are the writes that one block may hold.
type history struct {
	done   uint64   // the last write that was done for certain
	maybe  []uint64 // writes that may have been done after it
	late   []uint64 // writes that may still be done, even after later ones
	stable []uint64 // earlier acknowledged writes, one of which the disk may hold in place of done
}

// New returns the record of n blocks that write 0 has written and synced.
func New(file uint32, first, n int) *Ledger {
	return &Ledger{File: file, First: first, blocks: make([]history, n)}
}

// Len returns the number of blocks.
func (l *Ledger) Len() int { return len(l.blocks) }

// Begin returns the number of a new write of n blocks from block at of the part on.
func (l *Ledger) Begin(at, n int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = flight{l.now.write + 1, at, n}
	return l.now.write
}

// End records the outcome of a write of n blocks from block at of the part on. The first
// done blocks are written. With late the others may be written now or later, without it they are
// refused.
func (l *Ledger) End(write uint64, at, n, done int, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.n = 0
	for i := range n {
		switch h := &l.blocks[at+i]; {
		case i < done && l.Volatile && write <= l.cut: // its data may be lost since it was acknowledged
			h.maybe = append(h.maybe, write)
		case i < done:
			if l.Volatile {
				h.stable = append(append(h.stable, h.done), h.maybe...)
			}
			h.done, h.maybe = write, nil
		case late:
			h.late = append(h.late, write)
		}
	}
}

// Synced records that all acknowledged writes are on stable storage.
func (l *Ledger) Synced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.blocks {
		l.blocks[i].stable = nil
	}
}

// Settle records that no late write can still be done.
func (l *Ledger) Settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.blocks {
		h := &l.blocks[i]
		h.maybe, h.late = append(h.maybe, h.late...), nil
	}
}

// PowerCut records that the disk lost an unknown part of the writes that were not synced, and that no
// late write can still be done.
func (l *Ledger) PowerCut() {
	l.Settle()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = l.now.write
	for i := range l.blocks {
		h := &l.blocks[i]
		h.maybe, h.stable = append(h.maybe, h.stable...), nil
	}
}

// View has the writes that blocks may hold when a read begins.
type View struct {
	blocks []history
	now    flight
}

// View returns the writes that n blocks from block at of the part on may hold now.
func (l *Ledger) View(at, n int) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := View{slices.Clone(l.blocks[at : at+n]), l.now}
	for i := range v.blocks {
		v.blocks[i].maybe, v.blocks[i].late = slices.Clone(v.blocks[i].maybe), slices.Clone(v.blocks[i].late)
		v.blocks[i].stable = nil
	}
	return v
}

// Check compares the data of a read, from block at of the part on, with the view at its
// beginning. Writes may be in progress during the read.
func (l *Ledger) Check(v View, p []byte, at int) error {
	l.mu.Lock()
	newest := l.now.write
	l.mu.Unlock()
	for i := 0; i*BlockSize < len(p); i++ {
		beside := newest > v.now.write || v.now.has(at+i)
		write, err := written(p[i*BlockSize:][:BlockSize], l.File, l.First+at+i)
		switch {
		case err != nil && beside: // parts of two writes
		case err != nil:
			return err
		case v.blocks[i].allows(write):
		case beside && write >= v.now.write && write <= newest:
		default:
			return l.wrong(v, at, i, write)
		}
	}
	return nil
}

// CheckAtRest compares the file, from block at of the part on, with a view. No process
// writes to the file, though a writer may still wait for the answer to its write.
func (l *Ledger) CheckAtRest(v View, p []byte, at int) error {
	for i := 0; i*BlockSize < len(p); i++ {
		write, err := written(p[i*BlockSize:][:BlockSize], l.File, l.First+at+i)
		if err != nil {
			return err
		}
		if !v.blocks[i].allows(write) && (write != v.now.write || !v.now.has(at+i)) {
			return l.wrong(v, at, i, write)
		}
	}
	return nil
}

// allows reports whether a block may hold a write.
func (h *history) allows(write uint64) bool {
	return write == h.done || slices.Contains(h.maybe, write) || slices.Contains(h.late, write)
}

// wrong is the error of block i of a check from block at on.
func (l *Ledger) wrong(v View, at, i int, write uint64) error {
	return fmt.Errorf("file %d, block %d: it is of write %d, not of %+v; the newest is %+v", l.File, l.First+at+i, write, v.blocks[i], v.now)
}
