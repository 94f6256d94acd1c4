package smbserver

import (
	"context"
	"errors"
	"strings"
	"sync"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
)

// pipeService serves the messages of one pipe, as PipeHandler.Transact does. Its result is one or
// several messages.
type pipeService func(ctx context.Context, s *Session, request []byte, maxOutput int) ([][]byte, error)

// pipeService returns the service of a pipe by its name, in any case; nil if there is none.
func (s *Server) pipeService(name string) pipeService {
	name = strings.ToLower(name)
	h := s.cfg.Pipes[name]
	switch {
	case h != nil:
		return func(ctx context.Context, s *Session, request []byte, maxOutput int) ([][]byte, error) {
			out, err := h.Transact(ctx, s, request, maxOutput)
			return [][]byte{out}, err
		}
	case name == sharesPipe:
		return s.listShares
	}
	return nil
}

// pipe is an open named pipe in message mode: each message that the client writes has one or
// several messages as its result.
//
// Source: [MS-SMB2 3.3.5.15.1], [OP-34]
type pipe struct {
	session *Session
	name    string
	serve   pipeService
	ctx     context.Context
	cancel  context.CancelFunc
	memory  account.Charge // of the pipe without its result; handleTable.mu guards it
	held    heldResult

	mu     sync.Mutex
	unread [][]byte // the rest of the last result
	broken bool
}

func newPipe(s *Session, name string, serve pipeService) *pipe {
	p := &pipe{session: s, name: name, serve: serve}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	return p
}

// close ends the context of the service. It does not wait for the service.
func (p *pipe) close() {
	p.cancel()
	p.held.close()
}

// heldResult charges the user of a pipe for a result that is not read yet. It is safe for
// concurrent use.
type heldResult struct {
	mu     sync.Mutex
	closed bool
	charge account.Charge
}

// keep charges n bytes. It reports false if they are not available or the pipe is closed.
func (h *heldResult) keep(s *Session, n int) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.charge, ok = s.conn.memory.TryCharge(s.user, int64(n), account.Last)
	return ok
}

// drop returns the charge.
func (h *heldResult) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charge.Return()
}

// close returns the charge, and refuses further ones.
func (h *heldResult) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.charge.Return()
}

// transact passes one message to the service and returns the first message of the result, or its
// first maxOutput bytes with BUFFER_OVERFLOW; READ gives the rest.
//
// Source: [MS-FSCC 2.3.45], [MS-SMB2 3.3.5.15.3]
func (p *pipe) transact(ctx context.Context, request []byte, maxOutput int) ([]byte, ntstatus.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.callLocked(ctx, request, maxOutput); st != ntstatus.Success {
		return nil, st
	}
	return p.takeLocked(maxOutput)
}

// write passes one message to the service and keeps the result for READ.
func (p *pipe) write(ctx context.Context, request []byte, maxOutput int) ntstatus.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callLocked(ctx, request, maxOutput)
}

// read returns the next message of the result, or the next maxOutput bytes of it.
func (p *pipe) read(maxOutput int) ([]byte, ntstatus.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broken:
		return nil, ntstatus.PipeDisconnected
	case len(p.unread) == 0:
		return nil, ntstatus.PipeEmpty
	}
	return p.takeLocked(maxOutput)
}

// callLocked calls the service and keeps its result. Precondition: mu is held.
func (p *pipe) callLocked(ctx context.Context, request []byte, maxOutput int) ntstatus.Status {
	switch {
	case p.broken || p.ctx.Err() != nil:
		return ntstatus.PipeDisconnected
	case len(p.unread) > 0:
		return ntstatus.PipeBusy
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	out, err := p.serve(ctx, p.session, request, maxOutput)
	if err != nil {
		p.broken = true
		p.session.conn.log.Info("smb: named pipe failed", "pipe", p.name, "user", p.session.user, "error", err)
		var st ntstatus.Status
		if errors.As(err, &st) && st.Failed() {
			return st
		}
		if ctx.Err() != nil {
			return ntstatus.Cancelled
		}
		return ntstatus.PipeDisconnected
	}
	size := 0
	for _, message := range out {
		size += len(message)
	}
	if !p.held.keep(p.session, size) {
		p.broken = true
		return ntstatus.InsufficientResources
	}
	p.unread = out
	return ntstatus.Success
}

// takeLocked takes up to maxOutput bytes of the next message of the result. Precondition: mu is
// held, and there is a message.
func (p *pipe) takeLocked(maxOutput int) ([]byte, ntstatus.Status) {
	out := p.unread[0]
	if len(out) > maxOutput {
		p.unread[0] = out[maxOutput:]
		return out[:maxOutput], ntstatus.BufferOverflow
	}
	if p.unread = p.unread[1:]; len(p.unread) == 0 {
		p.held.drop()
	}
	return out, ntstatus.Success
}
