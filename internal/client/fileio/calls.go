package fileio

import (
	"context"
	"math"
	"time"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// File calls go over an RDMA connection on which the file is registered, if the server takes them, and over SMB
// otherwise. After the loss of the connection a call is sent again over SMB, LOCK and UNLOCK under their lock
// sequence. Truncate goes over SMB.
//
// Source: [OP-116]

// callsBeforeRegistering is the number of calls of a file over SMB before a call registers the file on a connection.
const callsBeforeRegistering = 1

// newCall returns a call with a message.
func (c *Client) newCall(h wire.Header) *rdmaconn.FileCall {
	o, ok := c.freeCalls.Get().(*rdmaconn.FileCall)
	if !ok {
		o = new(rdmaconn.FileCall)
	}
	o.Header, o.Name = h, ""
	return o
}

// freeCall returns a call for another use. It is not in flight.
func (c *Client) freeCall(o *rdmaconn.FileCall) {
	o.Epoch = nil
	c.freeCalls.Put(o)
}

// callPath returns a connection for a file call, and the file id; nil without one. Of several it is the one with the
// fewest requests in flight.
func (f *File) callPath(ctx context.Context) (best *rdmaconn.Conn, fid uint16) {
	least := math.MaxInt
	for _, r := range f.c.Paths {
		if cn, id := f.pathNow(r); cn != nil && cn.Limits.FileCalls && cn.Pending() < least {
			best, fid, least = cn, id, cn.Pending()
		}
	}
	if best != nil || len(f.c.Paths) == 0 || f.isOnSMB() || f.smbCalls.Add(1) <= callsBeforeRegistering {
		return best, fid
	}
	for _, r := range f.c.Paths {
		if cn := r.Live(); cn == nil || !cn.Limits.FileCalls {
			continue
		}
		if cn, id, err := f.pathFor(ctx, r, access{inFlight: true}); err == nil && cn != nil {
			return cn, id
		}
	}
	return nil, 0
}

// notDone reports whether the answer to a file call says that the server has not done it, because the registration of
// the file has ended or the request was cancelled.
func notDone(o *rdmaconn.FileCall) bool {
	st := ntstatus.Status(o.Status)
	return st == ntstatus.FileClosed || st == ntstatus.Cancelled
}

// ask sends a STAT, or a LOOKUP of a name in a directory. ok is false if the question has to go over SMB.
func (f *File) ask(ctx context.Context, name string, message func(fid uint16, to wire.RDMARegion) wire.Header) (e smbshare.Entry, ok bool, err error) {
	cn, fid := f.callPath(ctx)
	if cn == nil || len(name) > cn.Limits.Write {
		return e, false, nil
	}
	o := f.c.newCall(message(fid, wire.RDMARegion{Length: wire.StatInfoSize}))
	o.Name = name
	err = cn.Call(ctx, o)
	switch {
	case base.IsLost(err):
		return e, false, nil
	case err != nil:
		return e, true, err // o is given up, perhaps
	}
	defer f.c.freeCall(o)
	if notDone(o) {
		return e, false, nil
	}
	f.c.fileCalls.Add(1)
	if err = rdmaconn.StatusError(o.Status); err != nil {
		return e, true, err
	}
	i, err := wire.DecodeStatInfo(o.Info[:])
	return entryOf(&i), true, err
}

// describe asks for the size, the times and the attributes.
func (f *File) describe(ctx context.Context) (smbshare.Entry, error) {
	if e, ok, err := f.ask(ctx, "", wire.NewStat); ok {
		return e, err
	}
	return f.h.Stat(ctx)
}

// entryOf returns the answer to STAT as SMB describes files. No real file is larger than the largest int64.
func entryOf(i *wire.StatInfo) smbshare.Entry {
	return smbshare.Entry{
		Size: int64(min(i.Size, math.MaxInt64)), AllocationSize: int64(min(i.AllocationSize, math.MaxInt64)),
		Attributes: i.Attributes, ID: i.ID, Links: i.Links, DeletePending: i.DeletePending,
		Created: i.Created, Accessed: i.Accessed, Modified: i.Modified, Changed: i.Changed,
	}
}

// locker returns the carrier of a LOCK or an UNLOCK, nil if it has to go over SMB.
//
// Source: [OP-116]
func (f *File) locker(ctx context.Context, message func(fid uint16, l wire.FileLock) wire.Header, r smbshare.Range) smbshare.Carrier {
	cn, fid := f.callPath(ctx)
	if cn == nil {
		return nil
	}
	return func(ctx context.Context, sequence uint32) smbshare.CarrierResult {
		return f.lockOver(ctx, cn, message(fid, wire.FileLock{Offset: r.Off, Length: r.Len, Sequence: sequence}))
	}
}

// lockOver sends a LOCK or an UNLOCK on a connection.
func (f *File) lockOver(ctx context.Context, cn *rdmaconn.Conn, h wire.Header) smbshare.CarrierResult {
	var inFlight barrier.Barrier // of this request, after it is given up
	o := f.c.newCall(h)
	o.Epoch = inFlight.Begin()
	err := cn.Call(ctx, o)
	switch {
	case !o.Sent:
		o.Epoch.End()
		f.c.freeCall(o)
		if base.IsLost(err) {
			return smbshare.CarrierResult{Outcome: smbshare.NotSent}
		}
		return smbshare.CarrierResult{Outcome: smbshare.Answered, Err: err}
	case err == nil:
		f.c.fileCalls.Add(1)
		o.Epoch.End()
		defer f.c.freeCall(o)
		if notDone(o) {
			return smbshare.CarrierResult{Outcome: smbshare.NotSent}
		}
		return smbshare.CarrierResult{Outcome: smbshare.Answered, Err: rdmaconn.StatusError(o.Status)}
	}
	if base.IsLost(err) {
		o.Epoch.End()
		if err = f.c.Fence(ctx); err == nil {
			return smbshare.CarrierResult{Outcome: smbshare.Lost}
		}
	}
	return smbshare.CarrierResult{Outcome: smbshare.GivenUp, Err: err, Over: func(ctx context.Context) error {
		if err := inFlight.Wait(ctx); err != nil {
			return err
		}
		return f.fenceUntil(ctx)
	}}
}

// fenceUntil calls Fence until it succeeds or ctx ends. It does nothing if no connection is lost.
func (f *File) fenceUntil(ctx context.Context) error {
	for pause := new(base.Backoff); pause.Sleep(ctx, time.Second); {
		if f.c.Fence(ctx) == nil {
			return nil
		}
	}
	return context.Cause(ctx)
}
