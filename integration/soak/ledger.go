package main

import (
	"fmt"
	"slices"
	"sync"
)

// ledger records the writes that each block of a part of a file may hold. One write at a
// time is in progress there, and any number of reads.
type ledger struct {
	file  uint32
	first int        // block
	turn  sync.Mutex // held by the writer

	mu     sync.Mutex // guards the fields below
	blocks []history
	begun  uint64 // the newest write
	busy   bool   // a write is in progress
}

// history are the writes that one block may hold.
type history struct {
	done  uint64   // the last write that was done for certain
	maybe []uint64 // writes that may have been done after it
	late  []uint64 // writes that may still be done, even after later ones
}

func newLedger(file uint32, first, n int) *ledger {
	return &ledger{file: file, first: first, blocks: make([]history, n)}
}

// begin returns the number of a new write.
func (l *ledger) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	l.busy = true
	return l.begun
}

// end records the outcome of a write of n blocks from block at of the part on. The first
// done blocks are written; late reports whether the others may still be written.
func (l *ledger) end(write uint64, at, n, done int, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	for i := range n {
		switch h := &l.blocks[at+i]; {
		case i < done:
			h.done, h.maybe = write, nil
		case late:
			h.late = append(h.late, write)
		default:
			h.maybe = append(h.maybe, write)
		}
	}
}

// settle records that no late write can still be done.
func (l *ledger) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.blocks {
		h := &l.blocks[i]
		h.maybe, h.late = append(h.maybe, h.late...), nil
	}
}

// view has the writes that blocks may hold when a read begins.
type view struct {
	blocks []history
	begun  uint64
	busy   bool
}

func (l *ledger) view(at, n int) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := view{slices.Clone(l.blocks[at : at+n]), l.begun, l.busy}
	for i := range v.blocks {
		v.blocks[i].maybe, v.blocks[i].late = slices.Clone(v.blocks[i].maybe), slices.Clone(v.blocks[i].late)
	}
	return v
}

// check compares the data of a read, from block at of the part on, with the view at its
// beginning.
func (l *ledger) check(v view, p []byte, at int) error {
	l.mu.Lock()
	begun := l.begun
	l.mu.Unlock()
	beside := begun > v.begun || v.busy // a write was in progress during the read
	for i := 0; i*blockSize < len(p); i++ {
		h, index := v.blocks[i], l.first+at+i
		write, err := written(p[i*blockSize:][:blockSize], l.file, index)
		switch {
		case err != nil && beside: // parts of two writes
		case err != nil:
			return err
		case write == h.done, slices.Contains(h.maybe, write), slices.Contains(h.late, write):
		case beside && write >= v.begun && write <= begun:
		default:
			return fmt.Errorf("file %d, block %d: it is of write %d, not of %+v", l.file, index, write, h)
		}
	}
	return nil
}
