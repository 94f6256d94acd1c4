package stream

import (
	"context"
	"errors"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// stage is memory of the stream that data is offered from. outbound.mu guards it.
type stage struct {
	mem    rdma.Memory // nil if there is none
	handle verbs.Handle
	pieces []piece
	free   []*piece
	used   bool // since giveBack looked
}

// piece is a part of it, which is for one offer at a time.
type piece struct {
	buf        []byte
	offset     int // in the memory of the stage
	size       int // of descriptor
	descriptor [MaxDescriptor]byte
}

// takePiece gives memory to offer from: nil if all of it is on its way.
//
// Errors: ErrNoBuffers, errNoStage.
func (o *outbound) takePiece() (*piece, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := &o.stage
	g.used = true
	if g.mem == nil {
		if err := o.furnishLocked(); err != nil {
			return nil, err
		}
	}
	if len(g.free) == 0 {
		return nil, nil
	}
	p := g.free[len(g.free)-1]
	g.free = g.free[:len(g.free)-1]
	return p, nil
}

// giveLocked takes a piece back.
func (g *stage) giveLocked(p *piece) { g.free = append(g.free, p) }

// give is giveLocked.
func (o *outbound) give(p *piece) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stage.giveLocked(p)
}

// furnishLocked gets the memory and registers it: once for the peer to read, or, where that
// cannot, to be written from.
//
// Source: [WSD §5.2], [WSD §5.4]
func (o *outbound) furnishLocked() error {
	ctx, g, sock := context.Background(), &o.stage, &o.s.sock
	if !o.s.cfg.Memory.take(stagePieces * stageSize) {
		return errNoStage
	}
	m, err := sock.Alloc(ctx, stagePieces*stageSize)
	if err != nil {
		o.s.cfg.Memory.give(stagePieces * stageSize)
		return noBuffers(err)
	}
	g.pieces, g.free = make([]piece, stagePieces), nil
	if !o.sending.peerReads {
		g.handle, err = sock.RegisterMemory(ctx, m.Bytes(), verbs.MemRead)
	}
	for i := range g.pieces {
		p := &g.pieces[i]
		p.offset = i * stageSize
		p.buf = m.Bytes()[p.offset : p.offset+stageSize]
		if o.sending.peerReads && err == nil {
			p.size, err = sock.RegisterRdmaMemory(ctx, p.buf, verbs.MemRead, p.descriptor[:])
		}
		g.free = append(g.free, p)
	}
	g.mem = m
	if err != nil {
		if e := o.clearLocked(); e != nil {
			o.s.fail(connectionError(&o.s.sock, e)) // some of it is with the peer, some not
		}
		return noBuffers(err)
	}
	o.s.idle.Reset(memoryRest)
	return nil
}

// clearLocked gives the memory back; nobody uses it.
func (o *outbound) clearLocked() error {
	g := &o.stage
	var errs []error
	for i := range g.pieces {
		if p := &g.pieces[i]; p.size > 0 {
			errs = append(errs, o.s.sock.DeregisterRdmaMemory(p.descriptor[:p.size]))
		}
	}
	if g.handle != (verbs.Handle{}) {
		errs = append(errs, o.s.sock.DeregisterMemory(g.handle))
	}
	if err := errors.Join(errs...); err != nil {
		return err // what the peer cannot be kept from stays
	}
	err := g.mem.Close()
	*g = stage{}
	o.s.cfg.Memory.give(stagePieces * stageSize)
	return err
}

// giveBack gives memory back that was not used for a while, and is what a timer calls.
func (s *Stream) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.closing.Load() {
		return
	}
	again := s.restTempLocked()
	again = s.restBuffersLocked() || again
	if s.out.rest() || again {
		s.idle.Reset(memoryRest)
	}
}

// restTempLocked drops the memory for small reads, and tells whether it is still there.
func (s *Stream) restTempLocked() bool {
	f := &s.in.fetching
	if f.temp == nil || f.stuck {
		return false
	}
	unread := s.in.views > 0 || s.in.items.len() > 0 && s.in.items.at(0).offer != nil && len(s.in.items.at(0).data) > 0
	if f.tempUsed || f.busy > 0 || unread {
		f.tempUsed = false
		return true
	}
	if f.tempHandle == (verbs.Handle{}) || s.sock.DeregisterMemory(f.tempHandle) == nil {
		_ = f.temp.Close() // it is not needed, whatever becomes of it
		f.temp, f.tempHandle = nil, verbs.Handle{}
		s.cfg.Memory.give(fetchSize)
	}
	return f.temp != nil
}

// rest drops the memory of the stage, and tells whether it is still there.
func (o *outbound) rest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := &o.stage
	if g.mem == nil {
		return false
	}
	if g.used || len(g.free) < len(g.pieces) {
		g.used = false
		return true
	}
	if err := o.clearLocked(); err != nil {
		o.s.fail(connectionError(&o.s.sock, err))
	}
	return false
}
