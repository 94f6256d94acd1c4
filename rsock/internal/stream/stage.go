package stream

import (
	"context"
	"errors"
	"sync"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// stage is memory of the stream that large data is copied into and offered from. It is
// allocated at the first use, and trim frees it. Safe for concurrent use.
type stage struct {
	c *connection

	mu     sync.Mutex  // guards the fields below
	mem    rdma.Memory // nil if there is none
	handle verbs.Handle
	pieces []piece
	free   []*piece
	used   bool // since the last trim
}

// piece is a part of the stage. It holds the data of one offer at a time.
type piece struct {
	buf        []byte
	handle     verbs.Handle // of the stage, if the peer does not read
	offset     int          // in the memory of the stage
	size       int          // of descriptor, in bytes
	descriptor [MaxDescriptor]byte
}

// errNoStage: the budget has no memory left for a stage. Then the data goes by control
// messages.
var errNoStage = errors.New("the memory for large data is used up")

// take returns a free piece, or nil if all pieces are in use.
//
// Errors: ErrNoBuffers, errNoStage.
func (g *stage) take() (*piece, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = true
	if g.mem == nil {
		if err := g.allocateLocked(); err != nil {
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

// give frees a piece.
func (g *stage) give(p *piece) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, p)
}

// allocateLocked allocates and registers the memory. A peer that reads gets the right to
// read it. For a peer that does not read, it is the source of RDMA Writes.
//
// Source: [WSD §5.2], [WSD §5.4]
func (g *stage) allocateLocked() error {
	ctx, sock, peerReads := context.Background(), &g.c.sock, g.c.peer.CanRead
	if !g.c.cfg.Memory.take(stagePieces * stageSize) {
		return errNoStage
	}
	m, err := sock.Alloc(ctx, stagePieces*stageSize)
	if err != nil {
		g.c.cfg.Memory.give(stagePieces * stageSize)
		return noBuffers(err)
	}
	g.pieces, g.free = make([]piece, stagePieces), nil
	if !peerReads {
		g.handle, err = sock.RegisterMemory(ctx, m.Bytes(), verbs.MemRead)
	}
	for i := range g.pieces {
		p := &g.pieces[i]
		p.handle, p.offset = g.handle, i*stageSize
		p.buf = m.Bytes()[p.offset : p.offset+stageSize]
		if peerReads && err == nil {
			p.size, err = sock.RegisterRdmaMemory(ctx, p.buf, verbs.MemRead, p.descriptor[:])
		}
		g.free = append(g.free, p)
	}
	g.mem = m
	if err != nil {
		if e := g.freeLocked(); e != nil {
			g.c.failBelow(e) // the peer may still reach some of the pieces
		}
		return noBuffers(err)
	}
	g.c.trimLater()
	return nil
}

// freeLocked deregisters and frees the memory. Precondition: no piece is in use. Memory that
// cannot be deregistered stays.
func (g *stage) freeLocked() error {
	var errs []error
	for i := range g.pieces {
		if p := &g.pieces[i]; p.size > 0 {
			errs = append(errs, g.c.sock.DeregisterRdmaMemory(p.descriptor[:p.size]))
		}
	}
	if g.handle != (verbs.Handle{}) {
		errs = append(errs, g.c.sock.DeregisterMemory(g.handle))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err := g.mem.Close()
	g.mem, g.handle, g.pieces, g.free, g.used = nil, verbs.Handle{}, nil, nil, false
	g.c.cfg.Memory.give(stagePieces * stageSize)
	return err
}

// trim frees the memory if it was not used since the last call, and reports whether the
// memory is still there.
func (g *stage) trim() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mem == nil {
		return false
	}
	if g.used || len(g.free) < len(g.pieces) {
		g.used = false
		return true
	}
	if err := g.freeLocked(); err != nil {
		g.c.failBelow(err)
	}
	return false
}

// held returns how many bytes of the budget the stage holds.
func (g *stage) held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mem == nil {
		return 0
	}
	return stagePieces * stageSize
}
