package fileio

import (
	"context"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// fileSyncs has the SYNC and FLUSH requests of a file take turns. The server takes a request as the proof that the
// client has the answer to the last one over the same carrier, so that is awaited, also after its call was given up. A
// request serves all calls that came before it. Safe for concurrent use.
//
// Source: [OP-92f], [OP-116]
type fileSyncs struct {
	turn  chan struct{} // holds a token while a call uses the fields below
	begun atomic.Uint64 // requests

	served  uint64 // the last request whose outcome is known
	outcome error  // of it
	late    lateSync
}

// lateSync is a request whose call was given up before the answer, or whose failure no call has got. The zero value is
// none.
type lateSync struct {
	answer <-chan error // receives failures or nil, and is closed
	// conn is the connection of the request, and fid the file there. conn is nil for SMB.
	conn *rdmaconn.Conn
	fid  uint16
}

// sync puts the written data on the disk, by a request that is sent after the call began. The failure of a request that
// was given up is the outcome of the next call. begun is the number of the writes that the request is for.
func (f *File) sync(ctx context.Context, begun uint64) error {
	q := &f.syncs
	need := q.begun.Load() + 1
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if q.served >= need {
		return q.outcome
	}
	if err := f.takeLate(ctx, begun); err != nil {
		return err
	}
	n := q.begun.Add(1)
	err := f.flush(ctx, begun)
	if err == nil || ntstatus.LosesData(err) {
		q.served, q.outcome = n, err
	}
	return err
}

// takeLate waits for the answer to the request that was given up, if there is one, and returns its failure. Precondition:
// the caller has the turn.
func (f *File) takeLate(ctx context.Context, begun uint64) error {
	q := &f.syncs
	late := q.late
	if late.answer == nil {
		return nil
	}
	for {
		select {
		case err, more := <-late.answer:
			switch {
			case !more:
				q.late = lateSync{}
				return nil
			case ntstatus.LosesData(err): // after a loss of the connection the server repeats a failure
				if late.conn == nil {
					f.awaitConfirmation(ctx, late.answer, begun)
					return err
				}
				q.late = lateSync{}
				f.confirm(ctx, late.conn, late.fid, begun)
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitConfirmation is confirm for a FLUSH over SMB that was given up: the other request is sent already, and its failure
// comes by answer. If ctx ends before that, the next call has to report it.
func (f *File) awaitConfirmation(ctx context.Context, answer <-chan error, begun uint64) {
	select {
	case again, failed := <-answer:
		f.syncs.late = lateSync{}
		if failed && f.writes.Begun() != begun {
			f.syncs.keep(again, nil, 0)
		}
	case <-ctx.Done():
	}
}

// keep leaves a failure to the next call. Precondition: the caller has the turn.
func (q *fileSyncs) keep(failure error, cn *rdmaconn.Conn, fid uint16) {
	answer := make(chan error, 1)
	answer <- failure
	close(answer)
	q.late = lateSync{answer: answer, conn: cn, fid: fid}
}

// flush sends a request over a connection, or over SMB. Precondition: the caller has the turn.
func (f *File) flush(ctx context.Context, begun uint64) error {
	if cn, fid := f.callPath(ctx); cn != nil {
		ok, err := f.syncOver(ctx, cn, fid)
		if ntstatus.LosesData(err) {
			f.confirm(ctx, cn, fid, begun)
		}
		if ok {
			return err
		}
	}
	late, err := f.h.Flush(ctx)
	f.syncs.late = lateSync{answer: late}
	if ntstatus.LosesData(err) && f.writes.Begun() == begun {
		f.syncs.late = lateSync{} // another failure, at the confirmation, is of the same data
	}
	return err
}

// confirm sends another SYNC after a failure of the disk, over the same connection, which shows the server that the client
// has the answer. If that one fails, and other writes than the first begun have begun, data was lost again, and the next
// call has to report it.
func (f *File) confirm(ctx context.Context, cn *rdmaconn.Conn, fid uint16, begun uint64) {
	if _, err := f.syncOver(ctx, cn, fid); ntstatus.LosesData(err) && f.writes.Begun() != begun {
		f.syncs.keep(err, cn, fid)
	}
}

// syncOver sends a SYNC on a connection. ok is false if it is not done, or its answer is lost. Precondition: the caller
// has the turn.
func (f *File) syncOver(ctx context.Context, cn *rdmaconn.Conn, fid uint16) (ok bool, err error) {
	o := f.c.newCall(wire.NewSync(fid))
	err = cn.Call(ctx, o)
	switch {
	case base.IsLost(err):
		return false, nil
	case err != nil:
		f.syncs.late = lateSync{answer: o.Late(), conn: cn, fid: fid}
		return true, err
	}
	defer f.c.freeCall(o)
	if notDone(o) {
		return false, nil
	}
	f.c.fileCalls.Add(1)
	return true, rdmaconn.StatusError(o.Status)
}
