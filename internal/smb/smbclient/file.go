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
	name   string
	info   FileInfo
	action uint32
	closed atomic.Bool

	unsettled unsettled // guarded by the connection's mu

	keyMu sync.Mutex
	key   []byte // output of the resume key's control code
}

// Name is the name it was opened by.
func (f *File) Name() string { return f.name }

// Info is what the open found.
func (f *File) Info() FileInfo { return f.info }

// Action says what the open did: 0 superseded, 1 opened, 2 created, 3
// overwritten.
//
// Source: [MS-SMB2 2.2.14]
func (f *File) Action() uint32 { return f.action }

// do sends one request on the file and returns its answer, as conn.call.
func (f *File) do(ctx context.Context, p part, more ...ntstatus.Status) (*response, error) {
	if f.closed.Load() {
		return nil, ntstatus.FileClosed
	}
	p.treeID = f.t.id
	return f.t.s.conn.call(ctx, p, more...)
}

// Close closes the file; a second Close does nothing. If ctx ends first, the
// server is told later.
//
// Source: [MS-SMB2 3.2.4.5]
func (f *File) Close(ctx context.Context) error {
	if f.closed.Swap(true) {
		return nil
	}
	if ctx.Err() != nil {
		f.closeSoon()
		return fail("close", f.name, ctx.Err())
	}
	return fail("close", f.name, f.close(ctx))
}

func (f *File) close(ctx context.Context) error {
	c := f.t.s.conn
	list, err := c.send(ctx, part{command: smbwire.CommandClose, body: &smbwire.CloseRequest{FileID: f.id}, treeID: f.t.id})
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

// closeSoon leaves closing to the janitor.
func (f *File) closeSoon() {
	f.closed.Store(true)
	c := f.t.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.doLocked(func(ctx context.Context) {
			if list, err := c.send(ctx, part{command: smbwire.CommandClose, body: &smbwire.CloseRequest{FileID: f.id}, treeID: f.t.id}); err == nil {
				c.abandon(list[0], false)
			}
		})
	}
}

// Flush puts what was written on stable storage.
//
// Source: [MS-SMB2 3.2.4.8]
func (f *File) Flush(ctx context.Context) error {
	r, err := f.do(ctx, part{command: smbwire.CommandFlush, body: &smbwire.FlushRequest{FileID: f.id}})
	if err == nil {
		f.t.s.conn.free(r)
	}
	return fail("flush", f.name, err)
}

// QueryInfo asks for information of at most maxOut bytes; additional says which
// parts of a security descriptor. With BufferOverflow the result is cut.
//
// Source: [MS-SMB2 3.2.4.9]
func (f *File) QueryInfo(ctx context.Context, kind smbwire.InfoType, class uint8, additional uint32, maxOut int) ([]byte, error) {
	b, err := f.queryInfo(ctx, kind, class, additional, maxOut)
	return b, fail("query", f.name, err)
}

func (f *File) queryInfo(ctx context.Context, kind smbwire.InfoType, class uint8, additional uint32, maxOut int) ([]byte, error) {
	if maxOut < 0 || maxOut > f.t.MaxTransact() {
		return nil, ntstatus.InvalidParameter
	}
	r, err := f.do(ctx, part{
		command: smbwire.CommandQueryInfo, payload: maxOut,
		body: &smbwire.QueryInfoRequest{
			InfoType: kind, Class: class, OutputBufferLength: uint32(maxOut), AdditionalInformation: additional, FileID: f.id,
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

// cause is err, or what is wrong with a value that was decoded well.
func cause(err error) error {
	if err == nil {
		return smbwire.ErrValue
	}
	return err
}

// SetInfo changes what data, encoded as class says, is about.
//
// Source: [MS-SMB2 3.2.4.10]
func (f *File) SetInfo(ctx context.Context, kind smbwire.InfoType, class uint8, data []byte) error {
	return fail("set information", f.name, f.setInfo(ctx, kind, class, data))
}

func (f *File) setInfo(ctx context.Context, kind smbwire.InfoType, class uint8, data []byte) error {
	if len(data) > f.t.MaxTransact() {
		return ntstatus.InvalidParameter
	}
	r, err := f.do(ctx, part{
		command: smbwire.CommandSetInfo, payload: len(data), changes: f,
		body: &smbwire.SetInfoRequest{InfoType: kind, Class: class, FileID: f.id, Data: data},
	})
	if err == nil {
		f.t.s.conn.free(r)
	}
	return err
}

// Stat describes the file as it is now.
//
// Source: [MS-FSCC 2.4.2]
func (f *File) Stat(ctx context.Context) (FileInfo, error) {
	const room = 4 << 10
	b, err := f.queryInfo(ctx, smbwire.InfoFile, uint8(smbwire.ClassAll), 0, room)
	if err != nil && err != ntstatus.BufferOverflow { //nolint:errorlint // the status itself, with data: only the name is cut
		return FileInfo{}, fail("stat", f.name, err)
	}
	all, err := smbwire.DecodeAllInfo(b)
	if err != nil {
		return FileInfo{}, fail("stat", f.name, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	i := FileInfo{
		Name: f.info.Name, Size: size(all.Standard.EndOfFile), AllocationSize: size(all.Standard.AllocationSize),
		Attributes: all.Basic.FileAttributes, ID: all.FileID, Links: all.Standard.NumberOfLinks, DeletePending: all.Standard.DeletePending,
	}
	i.setTimes(&all.Basic.FileTimes)
	return i, nil
}

// SetEndOfFile makes the file that long, in bytes.
//
// Source: [MS-FSCC 2.4.14]
func (f *File) SetEndOfFile(ctx context.Context, n int64) error {
	if n < 0 {
		return fail("set size", f.name, ntstatus.InvalidParameter)
	}
	return fail("set size", f.name, f.setInfo(ctx, smbwire.InfoFile, uint8(smbwire.ClassEndOfFile), smbwire.Uint64Info(n).AppendTo(nil)))
}

// Rename moves the file, opened with the right to delete it, to another place in
// the share. replace allows it to take the place of another file.
//
// Source: [MS-FSCC 2.4.42]
func (f *File) Rename(ctx context.Context, newPath string, replace bool) error {
	name, err := encodePath(newPath)
	if err != nil {
		return fail("rename", newPath, err)
	}
	info := smbwire.RenameInfo{ReplaceIfExists: replace, Name: name}
	return fail("rename", f.name, f.setInfo(ctx, smbwire.InfoFile, uint8(smbwire.ClassRename), info.AppendTo(nil)))
}

// SetDeleteOnClose says whether the file, opened with the right to delete it, is
// deleted when it is closed.
//
// Source: [MS-FSCC 2.4.11]
func (f *File) SetDeleteOnClose(ctx context.Context, on bool) error {
	return fail("delete", f.name, f.setInfo(ctx, smbwire.InfoFile, uint8(smbwire.ClassDisposition), smbwire.DispositionInfo(on).AppendTo(nil)))
}

// SetBasicInfo changes times and attributes; zero leaves each as it is.
//
// Source: [MS-FSCC 2.4.7]
func (f *File) SetBasicInfo(ctx context.Context, created, accessed, modified, changed time.Time, attributes uint32) error {
	info := smbwire.BasicInfo{
		FileTimes: smbwire.FileTimes{
			CreationTime: smbwire.FiletimeOf(created), LastAccessTime: smbwire.FiletimeOf(accessed),
			LastWriteTime: smbwire.FiletimeOf(modified), ChangeTime: smbwire.FiletimeOf(changed),
		},
		FileAttributes: attributes,
	}
	return fail("set attributes", f.name, f.setInfo(ctx, smbwire.InfoFile, uint8(smbwire.ClassBasic), info.AppendTo(nil)))
}
