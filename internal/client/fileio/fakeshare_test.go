package fileio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/wire"
)

// fakeShare is a share in memory, behind both the fake SMB session and the raw
// LWIO server.
type fakeShare struct {
	mu    sync.Mutex
	files map[string]*fakeFile
	opens map[[24]byte]*fakeFile
	next  uint64
}

type fakeFile struct {
	mu   sync.Mutex
	data []byte
	dir  bool
}

func newFakeShare() *fakeShare {
	return &fakeShare{files: map[string]*fakeFile{"": {dir: true}}, opens: map[[24]byte]*fakeFile{}}
}

func (s *fakeShare) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = &fakeFile{data: data}
}

func (s *fakeShare) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, ntstatus.EndOfFile
	}
	return copy(p, f.data[off:]), nil
}

func (f *fakeFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if end := int(off) + len(p); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	return copy(f.data[off:], p), nil
}

func (f *fakeFile) content() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.data)
}

// fakeSession is an SMB session with a fakeShare.
type fakeSession struct {
	share    *fakeShare
	noLWIO   bool // no pipe
	noFile   bool // no context with the resume key
	appKey   []byte
	offers   []wire.AddressBlock
	onKeys   func(client, server [16]byte)
	mangle   func([]byte) []byte   // changes the answer to NEGOTIATE
	noFences bool                  // refuses a second NEGOTIATE
	onClose  func(context.Context) // or nil
	// unsettled is closed when nothing that was given up goes on any more; nil: nothing does.
	unsettled chan struct{}
	// onRename renames an open file, by do or not at all; nil: by do.
	onRename func(ctx context.Context, do func()) error
	closing  error          // of handles
	keeping  error          // of files that shall not be deleted any more
	onWrite  func(p []byte) // is called before each write over SMB; or nil
	misnamed error          // of listings; or nil
	// writeWhole serves WriteWhole; nil: the server cannot do that.
	writeWhole func(file smbshare.WholeFile) error

	mu           sync.Mutex
	hidden       []wire.AddressBlock // offers that are away
	lost         error
	negotiations int
	smbReads     int
	heads        int
	smbWrites    int
	flushes      int
	unlocks      int
}

var errFakePipe = errors.New("no more pipes")

func (s *fakeSession) Open(ctx context.Context, req smbshare.OpenRequest) (smbshare.Handle, error) {
	s.share.mu.Lock()
	defer s.share.mu.Unlock()
	f := s.share.files[req.Name]
	switch {
	case f == nil && (req.Disposition == smbshare.DispositionOpen || req.Disposition == smbshare.DispositionOverwrite):
		return nil, ntstatus.ObjectNameNotFound
	case f != nil && req.Disposition == smbshare.DispositionCreate:
		return nil, ntstatus.ObjectNameCollision
	case f != nil && f.dir && req.Options&smbshare.OptionNonDirectory != 0:
		return nil, ntstatus.FileIsADirectory
	case f == nil:
		f = &fakeFile{dir: req.Options&smbshare.OptionDirectory != 0}
		s.share.files[req.Name] = f
	case req.Disposition == smbshare.DispositionOverwriteIf || req.Disposition == smbshare.DispositionOverwrite:
		f.data = nil
	}
	var key [24]byte
	s.share.next++
	binary.LittleEndian.PutUint64(key[:], s.share.next)
	s.share.opens[key] = f
	if req.DeletePending {
		delete(s.share.files, req.Name) // as SetDelete
	}
	_, err := f.WriteAt(req.Data, 0)
	return &fakeHandle{s: s, name: req.Name, f: f, key: key}, errors.Join(err, ctx.Err())
}

func (s *fakeSession) ReadHead(ctx context.Context, name string, p []byte) (n int, e smbshare.Entry, err error) {
	s.count(&s.heads)
	err = s.with(ctx, name, smbshare.DispositionOpen, smbshare.OptionNonDirectory, func(h smbshare.Handle) error {
		e = h.Created()
		n, err = h.(*fakeHandle).f.ReadAt(p, 0)
		if ntstatus.Of(err) == ntstatus.EndOfFile {
			err = nil
		}
		return err
	})
	return n, e, err
}

func (s *fakeSession) WriteWhole(_ context.Context, file smbshare.WholeFile, temporary func() string) (bool, error) {
	if s.writeWhole == nil {
		return false, nil
	}
	file.Temporary = temporary()
	return true, s.writeWhole(file)
}

func (s *fakeSession) ListSmall(context.Context, string) ([]smbshare.Entry, bool, error) {
	return nil, false, s.Err()
}

func (s *fakeSession) MaxSmall() int { return 64 << 10 }

func (s *fakeSession) OpenPipe(context.Context, string) (handshake.Pipe, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	if s.noLWIO {
		return nil, ntstatus.ObjectNameNotFound
	}
	return &fakePipe{s}, nil
}

func (s *fakeSession) Encryption() string { return "" }

func (s *fakeSession) ApplicationKey() ([]byte, bool) { return s.appKey, s.appKey != nil }

func (s *fakeSession) Close(ctx context.Context) error {
	if s.onClose != nil {
		s.onClose(ctx)
	}
	return nil
}

func (s *fakeSession) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (s *fakeSession) Await(context.Context) error { return s.Err() }

func (s *fakeSession) State() base.SessionState { return base.SessionState{} }

// lose ends the session.
func (s *fakeSession) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = err
}

// with opens, calls do and closes.
func (s *fakeSession) with(ctx context.Context, name string, disposition, options uint32, do func(h smbshare.Handle) error) error {
	h, err := s.Open(ctx, smbshare.OpenRequest{Name: name, Disposition: disposition, Options: options})
	if err != nil {
		return err
	}
	return errors.Join(do(h), h.Close(ctx))
}

func (s *fakeSession) Stat(ctx context.Context, name string) (e smbshare.Entry, err error) {
	err = s.with(ctx, name, smbshare.DispositionOpen, 0, func(h smbshare.Handle) error { e = h.Created(); return nil })
	return e, err
}

func (s *fakeSession) Space(context.Context) (smbshare.Space, error) { return smbshare.Space{}, nil }

func (s *fakeSession) SetBasic(context.Context, string, smbshare.Basic) error {
	return errors.ErrUnsupported
}

func (s *fakeSession) Mkdir(ctx context.Context, name string) error {
	return s.with(ctx, name, smbshare.DispositionCreate, smbshare.OptionDirectory, func(smbshare.Handle) error { return nil })
}

func (s *fakeSession) Remove(ctx context.Context, name string) error {
	return s.with(ctx, name, smbshare.DispositionOpen, 0, func(h smbshare.Handle) error { return h.SetDelete(ctx, true) })
}

func (s *fakeSession) Rename(ctx context.Context, from, to string) error {
	return s.with(ctx, from, smbshare.DispositionOpen, 0, func(h smbshare.Handle) error { return h.(*fakeHandle).rename(ctx, to) })
}

func (s *fakeSession) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

func (s *fakeSession) counted(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

type fakePipe struct{ s *fakeSession }

func (p *fakePipe) Close() error { return nil }

func (p *fakePipe) Transact(_ context.Context, in []byte, _ int) ([]byte, error) {
	req, err := wire.DecodeNegotiateRequest(in)
	if err != nil {
		return nil, err
	}
	if n := p.s.count(&p.s.negotiations); n > 1 && p.s.noFences {
		return nil, errFakePipe
	}
	p.s.mu.Lock()
	resp := wire.NegotiateResponse{ServerName: "fake", Key: req.Key, Providers: p.s.offers}
	p.s.mu.Unlock()
	resp.Key[0] ^= 0xff // another one for each of the client's
	if p.s.onKeys != nil {
		p.s.onKeys(req.Key, resp.Key)
	}
	out, err := resp.AppendTo(nil)
	if p.s.mangle != nil {
		out = p.s.mangle(out)
	}
	return out, err
}

type fakeHandle struct {
	s    *fakeSession
	name string
	f    *fakeFile
	key  [24]byte
}

func (h *fakeHandle) Created() smbshare.Entry {
	e := smbshare.Entry{Size: int64(len(h.f.content())), Modified: time.Unix(1, 0)}
	if h.f.dir {
		e.Attributes = smbwire.AttributeDirectory
	}
	return e
}

func (h *fakeHandle) Err() error { return nil }

func (h *fakeHandle) ResumeKey(context.Context, bool) ([24]byte, bool, error) {
	return h.key, !h.s.noFile, nil
}

func (h *fakeHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.s.count(&h.s.smbReads)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	n, err := h.f.ReadAt(p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (h *fakeHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.s.count(&h.s.smbWrites)
	if h.s.onWrite != nil {
		h.s.onWrite(p)
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return h.f.WriteAt(p, off)
}

func (h *fakeHandle) Settle(ctx context.Context) error {
	if h.s.unsettled == nil {
		return nil
	}
	select {
	case <-h.s.unsettled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *fakeHandle) Flush(context.Context) (<-chan error, error) {
	h.s.count(&h.s.flushes)
	return nil, nil
}

func (h *fakeHandle) Lock(ctx context.Context, _ smbshare.Range, _, _ bool, _ smbshare.Carrier) error {
	return ctx.Err()
}

func (h *fakeHandle) Unlock(ctx context.Context, _ smbshare.Range, _ smbshare.Carrier) error {
	h.s.count(&h.s.unlocks)
	return ctx.Err()
}

func (h *fakeHandle) Stat(context.Context) (smbshare.Entry, error) { return h.Created(), nil }

func (h *fakeHandle) SetSize(_ context.Context, size int64) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if size < int64(len(h.f.data)) {
		h.f.data = h.f.data[:size]
	} else {
		h.f.data = append(h.f.data, make([]byte, size-int64(len(h.f.data)))...)
	}
	return nil
}

func (h *fakeHandle) Keep(ctx context.Context, name string) error {
	if err := h.SetDelete(ctx, false); err != nil {
		return err
	}
	return h.rename(ctx, name)
}

func (h *fakeHandle) rename(ctx context.Context, name string) error {
	do := func() {
		h.s.share.mu.Lock()
		defer h.s.share.mu.Unlock()
		delete(h.s.share.files, h.name)
		h.s.share.files[name] = h.f
		h.name = name
	}
	if h.s.onRename != nil {
		return h.s.onRename(ctx, do)
	}
	do()
	return nil
}

// SetDelete does not wait for the close.
func (h *fakeHandle) SetDelete(_ context.Context, on bool) error {
	h.s.share.mu.Lock()
	defer h.s.share.mu.Unlock()
	switch {
	case on:
		delete(h.s.share.files, h.name)
	case h.s.keeping != nil:
		return h.s.keeping
	default:
		h.s.share.files[h.name] = h.f
	}
	return nil
}

func (h *fakeHandle) Entries(context.Context) ([]smbshare.Entry, error) {
	h.s.share.mu.Lock()
	defer h.s.share.mu.Unlock()
	var list []smbshare.Entry
	for name, f := range h.s.share.files {
		if name != "" && strings.TrimPrefix(path.Dir(name), ".") == h.name {
			list = append(list, smbshare.Entry{Name: path.Base(name), Size: int64(len(f.data)), Modified: time.Unix(1, 0)})
		}
	}
	return list, h.s.misnamed
}

func (h *fakeHandle) Close(context.Context) error {
	h.s.share.mu.Lock()
	defer h.s.share.mu.Unlock()
	delete(h.s.share.opens, h.key)
	return h.s.closing
}

var testTarget = base.Target{Host: "fake:1", Share: "share"}

// overSMB is a client of the share without RDMA.
func overSMB(t *testing.T, share *fakeShare) (*Client, *fakeSession) {
	sess := &fakeSession{share: share, noLWIO: true}
	c, err := newClient(t.Context(), sess, &testTarget, (&base.Config{Providers: defaults()}).WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, sess
}
