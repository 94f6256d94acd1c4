package smbclient

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// dirRoom is the requested size of a list of entries, in bytes.
const dirRoom = 64 << 10

// ReadDir enumerates a directory from its start: the entries that match pattern, with the
// usual wildcards * and ?; "" matches all. "." and ".." are left out. The server decides
// the order. A File has at most one enumeration at a time.
//
// An error ends the enumeration. Exception: smbwire.ErrName stands for an entry whose name
// cannot be represented, and the enumeration continues.
//
// Source: [MS-SMB2 3.2.4.17]
func (f *File) ReadDir(ctx context.Context, pattern string) iter.Seq2[FileInfo, error] {
	if pattern == "" {
		pattern = "*"
	}
	return func(yield func(FileInfo, error) bool) {
		text, err := smbwire.UTF16(pattern)
		flags := smbwire.QueryDirectoryRestart
		for err == nil {
			var list []byte
			if list, err = f.queryDir(ctx, text, flags); err == nil && !entries(list, &err, yield) {
				return
			}
			flags = 0
		}
		if err != ntstatus.NoMoreFiles && err != ntstatus.NoSuchFile { //nolint:errorlint // the status itself
			yield(FileInfo{}, timely(err))
		}
	}
}

// restRoom is the requested size of the second list of ListSmall, in bytes: it has room for one entry.
const restRoom = 1 << 10

// ListSmall enumerates a small directory, in one round trip with its open and close. It reports false, without
// entries, for a directory that is not small, which ReadDir of an open enumerates. The enumeration has the errors of ReadDir.
//
// Errors: as Create; NotADirectory.
//
// Source: [MS-SMB2 3.2.4.1.4], [MS-SMB2 3.2.4.17]
func (t *Tree) ListSmall(ctx context.Context, name string) (iter.Seq2[FileInfo, error], bool, error) {
	q := &CreateRequest{
		Name: name, Access: accessReadData | accessReadAttributes | accessSynchronize, Share: shareAll,
		Disposition: dispositionOpen, Options: optionDirectory,
	}
	w, err := q.wire(t)
	if err != nil {
		return nil, false, err
	}
	f := File{t: t}
	var list []byte
	more := false
	steps := []step{
		t.createStep(q, w, &f),
		t.queryDirStep(smbwire.RelatedFileID, smbwire.QueryDirectoryRestart, min(dirRoom, t.s.neg.maxTransact), func(b []byte) { list = slices.Clone(b) }),
		t.queryDirStep(smbwire.RelatedFileID, 0, restRoom, func([]byte) { more = true }),
		t.closeStep(smbwire.RelatedFileID),
	}
	err = t.s.conn.renewing(ctx, func() (*pending, error) {
		first, _, err := t.s.conn.exchangeAll(ctx, steps)
		return first, err
	})
	switch {
	case err != nil:
		return nil, false, timely(err)
	case more:
		return nil, false, nil
	}
	return func(yield func(FileInfo, error) bool) {
		var failed error
		if entries(list, &failed, yield) && failed != nil {
			yield(FileInfo{}, failed)
		}
	}, true, nil
}

// queryDirStep passes the next entries of a directory, in their wire form, to use, if there are any.
func (t *Tree) queryDirStep(id smbwire.FileID, flags uint8, room int, use func([]byte)) step {
	pattern, _ := smbwire.UTF16("*") // which is valid
	return step{
		request: request{command: smbwire.CommandQueryDirectory, treeID: t.id, payload: room, body: &smbwire.QueryDirectoryRequest{
			Class: smbwire.ClassIDBothDirectory, Flags: flags, FileID: id, OutputBufferLength: uint32(room), Pattern: pattern,
		}},
		also: []ntstatus.Status{ntstatus.NoMoreFiles, ntstatus.NoSuchFile},
		done: func(r *response) error {
			resp, err := smbwire.DecodeBufferResponse(r.body())
			if err != nil || len(resp.Data) == 0 || len(resp.Data) > room {
				return fmt.Errorf("%w: %d bytes of entries, %w", ErrProtocol, len(resp.Data), cause(err))
			}
			use(resp.Data)
			return nil
		},
	}
}

// queryDir returns one or more of the next entries in their wire form.
func (f *File) queryDir(ctx context.Context, pattern []byte, flags uint8) ([]byte, error) {
	room := min(dirRoom, f.t.s.neg.maxTransact)
	r, err := f.call(ctx, request{
		command: smbwire.CommandQueryDirectory, payload: room,
		body: &smbwire.QueryDirectoryRequest{
			Class: smbwire.ClassIDBothDirectory, Flags: flags, FileID: f.id, OutputBufferLength: uint32(room), Pattern: pattern,
		},
	})
	if err != nil {
		return nil, err
	}
	resp, err := smbwire.DecodeBufferResponse(r.body())
	if err == nil && len(resp.Data) == 0 {
		err = smbwire.ErrShort
	}
	if err != nil {
		f.t.s.conn.free(r)
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return resp.Data, nil // the garbage collector frees the message
}

// entries yields the entries of a list, and sets failed if it is malformed. It reports false
// if the consumer has stopped.
func entries(list []byte, failed *error, yield func(FileInfo, error) bool) bool {
	for list != nil {
		e, more, err := smbwire.NextDirEntry(smbwire.ClassIDBothDirectory, list)
		if err != nil {
			*failed = fmt.Errorf("%w: %w", ErrProtocol, err)
			return true
		}
		list = more
		name, err := smbwire.DecodeUTF16(e.Name)
		if err == nil {
			err = checkName(name)
		}
		if err != nil {
			if !yield(FileInfo{}, err) {
				return false
			}
			continue
		}
		if name == "." || name == ".." {
			continue
		}
		i := FileInfo{Name: name, Size: size(e.EndOfFile), AllocationSize: size(e.AllocationSize), Attributes: e.FileAttributes, ID: e.FileID}
		i.setTimes(&e.FileTimes)
		if !yield(i, nil) {
			return false
		}
	}
	return true
}
