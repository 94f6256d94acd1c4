package smbclient

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// File is an open file, directory or pipe.
//
// Source: [MS-SMB2 3.2.1.6]
type File struct {
	t      *Tree
	id     smbwire.FileID
	info   FileInfo
	closed atomic.Bool
	// granted is the time for which a persistent open is kept without a connection; 0 for others.
	granted time.Duration
	whole   bool // the server executes the message of the open up to its first failure

	unsettled unsettled

	keyMu sync.Mutex
	key   []byte // resume key as the server sent it, nil before it is fetched
}

// Info describes the file as the open found it.
func (f *File) Info() FileInfo { return f.info }

// call sends one request on the file and returns its response, like conn.call.
func (f *File) call(ctx context.Context, q request, more ...ntstatus.Status) (*response, error) {
	if f.closed.Load() {
		return nil, ntstatus.FileClosed
	}
	q.treeID = f.t.id
	return f.t.s.conn.call(ctx, q, more...)
}

// run is call for a request whose response has no content.
func (f *File) run(ctx context.Context, q request) error {
	r, err := f.call(ctx, q)
	f.t.s.conn.free(r)
	return timely(err)
}

// Close closes the file; a second Close does nothing. If ctx ends first, the janitor sends
// the CLOSE later.
//
// Source: [MS-SMB2 3.2.4.5]
func (f *File) Close(ctx context.Context) error {
	if f.closed.Swap(true) {
		return nil
	}
	if ctx.Err() != nil {
		f.closeSoon()
		return timely(ctx.Err())
	}
	return timely(f.close(ctx))
}

// closeRequest returns the CLOSE of the file.
func (f *File) closeRequest() request {
	return request{command: smbwire.CommandClose, body: &smbwire.CloseRequest{FileID: f.id}, treeID: f.t.id}
}

func (f *File) close(ctx context.Context) error {
	c := f.t.s.conn
	list, err := c.send(ctx, f.closeRequest())
	if err != nil {
		if ctx.Err() != nil {
			f.closeSoon()
		}
		return err
	}
	r, err := c.wait(ctx, list[0])
	if err != nil {
		return err
	}
	defer c.free(r)
	return r.Status.Err()
}

// closeSoon leaves the CLOSE to the janitor.
func (f *File) closeSoon() {
	f.closed.Store(true)
	c := f.t.s.conn
	c.janitor.do(func(ctx context.Context) {
		if list, err := c.send(ctx, f.closeRequest()); err == nil {
			c.abandon(list[0], false)
		}
	})
}

// Flush makes the written data of the file durable.
//
// Source: [MS-SMB2 3.2.4.8]
func (f *File) Flush(ctx context.Context) error {
	return f.run(ctx, request{command: smbwire.CommandFlush, body: &smbwire.FlushRequest{FileID: f.id}})
}

// queryInfo returns file information of at most maxOut bytes. With BufferOverflow the
// result is truncated.
//
// Source: [MS-SMB2 3.2.4.9]
func (f *File) queryInfo(ctx context.Context, class smbwire.FileClass, maxOut int) ([]byte, error) {
	r, err := f.call(ctx, request{
		command: smbwire.CommandQueryInfo, payload: maxOut,
		body: &smbwire.QueryInfoRequest{
			InfoType: smbwire.InfoFile, Class: uint8(class), OutputBufferLength: uint32(maxOut), FileID: f.id,
		},
	}, ntstatus.BufferOverflow)
	if err != nil {
		return nil, err
	}
	defer f.t.s.conn.free(r)
	resp, err := smbwire.DecodeBufferResponse(r.body())
	if err != nil || len(resp.Data) > maxOut {
		return nil, fmt.Errorf("%w: %d bytes of information, %w", ErrProtocol, len(resp.Data), cause(err))
	}
	return append([]byte(nil), resp.Data...), r.Status.Err()
}

// cause returns err, or ErrValue if err is nil: the value was decoded and is out of range.
func cause(err error) error {
	if err == nil {
		return smbwire.ErrValue
	}
	return err
}

// setInfo changes the file.
//
// Source: [MS-SMB2 3.2.4.10]
func (f *File) setInfo(ctx context.Context, s setInfo) error {
	if len(s.data) > f.t.s.neg.maxTransact {
		return ntstatus.InvalidParameter
	}
	q := f.t.setStep(f.id, s).request
	q.changes = f
	return f.run(ctx, q)
}

// Stat describes the file as it is now.
//
// Source: [MS-FSCC 2.4.2]
func (f *File) Stat(ctx context.Context) (FileInfo, error) {
	const room = 4 << 10
	b, err := f.queryInfo(ctx, smbwire.ClassAll, room)
	if err != nil && err != ntstatus.BufferOverflow { //nolint:errorlint // the status itself, with data: only the name is truncated
		return FileInfo{}, timely(err)
	}
	all, err := smbwire.DecodeAllInfo(b)
	if err != nil {
		return FileInfo{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	i := FileInfo{
		Name: f.info.Name, Size: size(all.Standard.EndOfFile), AllocationSize: size(all.Standard.AllocationSize),
		Attributes: all.Basic.FileAttributes, ID: all.FileID, Links: all.Standard.NumberOfLinks, DeletePending: all.Standard.DeletePending,
	}
	i.setTimes(&all.Basic.FileTimes)
	return i, nil
}

// SetSize sets the length of the file, in bytes.
//
// Source: [MS-FSCC 2.4.14]
func (f *File) SetSize(ctx context.Context, n int64) error {
	if n < 0 {
		return ntstatus.InvalidParameter
	}
	return f.setInfo(ctx, setInfo{smbwire.ClassEndOfFile, smbwire.Uint64Info(n).AppendTo(nil)})
}

// Keep takes the deletion of the file at its close back, and then moves the file to another path in the
// share, in place of another file, in one round trip. If the move is refused, the file is kept under its
// old path.
//
// Source: [MS-SMB2 3.2.4.1.4], [MS-FSCC 2.4.11], [MS-FSCC 2.4.42]
func (f *File) Keep(ctx context.Context, newPath string) error {
	rename, err := renameTo(newPath, true)
	switch {
	case err != nil:
		return err
	case f.closed.Load():
		return ntstatus.FileClosed
	}
	steps := []step{f.t.setStep(f.id, deletePending(false)), f.t.setStep(smbwire.RelatedFileID, rename)}
	for i := range steps {
		steps[i].changes = f
	}
	return timely(f.t.s.conn.renewing(ctx, func() (*pending, error) {
		first, _, err := f.t.s.conn.exchangeAll(ctx, steps)
		return first, err
	}))
}

// SetDelete sets or clears the deletion of the file, opened with the right to delete
// it, when it is closed.
//
// Source: [MS-FSCC 2.4.11]
func (f *File) SetDelete(ctx context.Context, on bool) error {
	return f.setInfo(ctx, deletePending(on))
}
