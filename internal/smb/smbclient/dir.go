package smbclient

import (
	"context"
	"fmt"
	"iter"

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
