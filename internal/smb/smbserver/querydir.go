package smbserver

import (
	"context"
	"encoding/binary"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// bufferFixed is the length of the body of a query's response without its data, in bytes.
const bufferFixed = 8

// maxListing bounds the entries of one response, in bytes.
const maxListing = smbwire.CreditUnit

// handleQueryDirectory serves QUERY_DIRECTORY.
//
// Source: [MS-SMB2 3.3.5.18]
func handleQueryDirectory(r *request, q smbwire.QueryDirectoryRequest) ntstatus.Status {
	pattern, err := smbwire.DecodeUTF16(q.Pattern)
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case o.file == nil || !o.file.IsDir():
		return ntstatus.InvalidParameter
	case !r.allows(uint32(len(q.Pattern)), q.OutputBufferLength):
		return ntstatus.InvalidParameter
	case !q.Class.Known():
		return ntstatus.InvalidInfoClass
	case int(q.OutputBufferLength) < smbwire.DirEntrySize(q.Class, 0):
		return ntstatus.InfoLengthMismatch
	}
	limit := min(int(q.OutputBufferLength), maxListing)
	if !r.reserve(bufferFixed + limit) {
		return ntstatus.ConnectionDisconnected
	}
	s := &o.search
	s.mu.Lock()
	defer s.mu.Unlock()
	restart := q.Flags&(smbwire.QueryDirectoryRestart|smbwire.QueryDirectoryReopen) != 0 || !s.begun
	if !restart {
		pattern = s.pattern
	}
	compiled, st := newPattern(pattern)
	if st != ntstatus.Success {
		return st
	}
	if restart {
		s.pattern, s.begun, s.over = pattern, true, false
	}
	ctx, done := r.conn.cancels.add(r.session.ctx, r.hdr.MessageID)
	defer done()
	l := listing{
		ctx: ctx, class: q.Class, pattern: compiled, last: -1,
		single: q.Flags&smbwire.QueryDirectorySingle != 0, limit: limit,
	}
	var head smbwire.BufferResponse
	l.b = head.AppendFixed(r.resp.begin(bufferFixed+l.limit), 0)
	l.start = len(l.b)
	st = l.fill(o, restart)
	binary.LittleEndian.PutUint32(l.b[l.start-4:], uint32(len(l.b)-l.start))
	r.resp.set(l.b)
	return st
}

// search is the position in the enumeration of a directory. It has the text of the pattern, because a
// compiled one takes far more memory, and a client can have thousands of directories open.
type search struct {
	mu      sync.Mutex
	pattern string
	begun   bool
	over    bool
}

// single returns the name that the pattern matches if it can match no other one, else "".
// Precondition: mu is held.
func (s *search) single() string {
	if hasWildcard(s.pattern) || s.pattern == "." || s.pattern == ".." {
		return ""
	}
	return s.pattern
}

// listing builds the response to one QUERY_DIRECTORY.
type listing struct {
	ctx     context.Context // ends with CANCEL
	class   smbwire.DirClass
	pattern *pattern
	single  bool // one entry only
	limit   int  // bytes of entries

	b           []byte
	start, last int
	count       int
	tight       bool // an entry did not fit
	name        []byte
}

// fill adds the next entries. Precondition: the search's mu is held.
//
// Source: [MS-SMB2 3.3.5.18], [MS-FSA 2.1.5.6.3]
func (l *listing) fill(o *open, restart bool) ntstatus.Status {
	s := &o.search
	none := ntstatus.NoMoreFiles
	if restart {
		none = ntstatus.NoSuchFile
	}
	var err error
	switch {
	case s.over:
		return ntstatus.NoMoreFiles
	case s.single() != "":
		var info vfs.FileInfo
		if info, err = o.file.Entry(s.single()); err == nil {
			s.over = l.add(&info)
		} else if st := ntstatus.Of(err); st == ntstatus.ObjectNameNotFound || st == ntstatus.ObjectNameInvalid {
			s.over = true
			return none
		}
	default:
		err = o.file.ReadDir(restart, l.add)
	}
	switch st := statusOf(err); {
	case l.tight && l.count == 0:
		return ntstatus.InfoLengthMismatch
	case l.count > 0:
		return ntstatus.Success
	case l.ctx.Err() != nil:
		return ntstatus.Cancelled
	case st == ntstatus.Success || st == ntstatus.NoMoreFiles:
		return none
	default:
		return st
	}
}

// add appends an entry if it matches. It reports false if the response is full or the
// request is cancelled; the entry then belongs to the next response. A request may look at
// millions of entries of which none matches.
func (l *listing) add(i *vfs.FileInfo) bool {
	if l.single && l.count == 1 || l.ctx.Err() != nil {
		return false
	}
	if !l.pattern.match(i.Name) {
		return true
	}
	name, err := smbwire.AppendUTF16(l.name[:0], i.Name)
	if err != nil {
		return true
	}
	l.name = name
	used := (len(l.b) - l.start + 7) &^ 7
	if used+smbwire.DirEntrySize(l.class, len(name)) > l.limit {
		l.tight = true
		return false
	}
	e := smbwire.DirEntry{
		FileTimes: fileTimes(i), EndOfFile: uint64(i.Size), AllocationSize: uint64(i.AllocationSize),
		FileAttributes: i.ReportedAttributes(), FileID: i.ID, Name: name,
	}
	l.b, l.last = smbwire.AppendDirEntry(l.b, l.start, l.last, l.class, &e)
	l.count++
	return true
}
