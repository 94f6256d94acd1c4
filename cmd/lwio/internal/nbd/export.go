package nbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"lwio"
	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// maxRequest bounds the data of a request or a reply, in bytes.
const maxRequest = 32 << 20

// blockSizes are the sizes of all exports: any range may be read and written.
var blockSizes = nbdwire.BlockSizes{Minimum: 1, Preferred: 4096, Maximum: maxRequest}

// ExportConfig configures an export.
type ExportConfig struct {
	// Name is the name by which a client chooses the export; Description is a text for people.
	Name, Description string
	// Path names the file in the share of the client.
	Path string
	// ReadOnly refuses every change of the file.
	ReadOnly bool
}

// Export is a file of a share that clients use as a block device. Its size is the size of the file when the
// export was opened. Safe for concurrent use.
type Export struct {
	cfg    ExportConfig
	client *lwio.Client
	size   uint64 // bytes
	files  atomic.Pointer[files]

	// written counts the writes that were answered before they were on stable storage, and flushed is the value
	// of written that the last FLUSH covered.
	written, flushed atomic.Uint64
	// counting keeps a change of files and a change of written apart.
	counting sync.Mutex

	mu      sync.Mutex     // admits one renewal of files at a time
	closing sync.WaitGroup // of opens that were replaced
}

// files are the opens of the file of an export.
type files struct {
	plain *lwio.File
	// durable is open with O_SYNC, for writes with FUA. zeroing is open with lwio.Unbuffered, for WriteSame.
	// Both are nil if the export is read-only.
	durable, zeroing *lwio.File
}

// OpenExport opens the file of an export. The caller closes the client, after the export.
//
// Errors: as [lwio.Client.OpenFile].
func OpenExport(ctx context.Context, c *lwio.Client, cfg ExportConfig) (*Export, error) {
	if err := nbdwire.CheckName(cfg.Name); err != nil {
		return nil, fmt.Errorf("the name of an export: %w", err)
	}
	e := &Export{cfg: cfg, client: c}
	f, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	e.size = uint64(f.plain.OpenInfo().Size())
	e.files.Store(f)
	return e, nil
}

// Name is the name of the export.
func (e *Export) Name() string { return e.cfg.Name }

// Size is the size of the export, in bytes.
func (e *Export) Size() uint64 { return e.size }

// Close closes the file. The caller has ended the connections of the export before.
func (e *Export) Close() error {
	err := e.files.Load().close()
	e.closing.Wait()
	return err
}

// open opens the file in each way that the export needs.
func (e *Export) open(ctx context.Context) (*files, error) {
	flag := os.O_RDWR
	if e.cfg.ReadOnly {
		flag = os.O_RDONLY
	}
	var f files
	var err error
	if f.plain, err = e.client.OpenFile(ctx, e.cfg.Path, flag, 0); err != nil {
		return nil, err
	}
	if e.cfg.ReadOnly {
		return &f, nil
	}
	if f.durable, err = e.client.OpenFile(ctx, e.cfg.Path, flag|os.O_SYNC, 0); err == nil {
		f.zeroing, err = e.client.OpenFile(ctx, e.cfg.Path, flag|lwio.Unbuffered, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return &f, nil
}

// close closes the opens that there are, and that the server has not closed itself.
func (f *files) close() (err error) {
	for _, o := range []*lwio.File{f.plain, f.durable, f.zeroing} {
		if o == nil {
			continue
		}
		if failed := o.Close(); !errors.Is(failed, fs.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// flags are the transmission flags of the export, for a connection with or without structured replies.
//
// Source: [NBD §Transmission flags]
func (e *Export) flags(structured bool) nbdwire.TransmissionFlags {
	// One open of the file serves all connections, and a FLUSH covers the writes of all.
	f := nbdwire.HasFlags | nbdwire.SendFlush | nbdwire.CanMultiConn | nbdwire.SendCache
	if structured {
		f |= nbdwire.SendDF
	}
	if e.cfg.ReadOnly {
		return f | nbdwire.ReadOnly
	}
	return f | nbdwire.SendFUA | nbdwire.SendWriteZeroes | nbdwire.SendFastZero
}

// maxRepeats bounds the attempts of one request.
const maxRepeats = 8

// errUnflushed refuses to open the file again after its server has forgotten it: writes that were answered may
// be lost with the server's host, and a later FLUSH would report that they are on stable storage.
var errUnflushed = errors.New("the server has closed the file while it had writes that were not flushed")

// repeatable reports whether a request to f may succeed if it is done again.
func (e *Export) repeatable(f *files, err error) bool {
	if errors.Is(err, fs.ErrClosed) && e.files.Load() != f {
		return true // another request has replaced f
	}
	return errors.Is(err, lwio.ErrStale) || errors.Is(err, lwio.ErrBufferBusy) || errors.Is(err, lwio.ErrUncertain) && !isTimeout(err)
}

// isTimeout reports whether an error is the end of a time limit.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// again calls do with the opens of the file until the outcome is certain. A write whose answer was lost is
// done again: until its reply the client has no other write of the same bytes in flight that it could
// order.
func (e *Export) again(ctx context.Context, do func(*files) error) (err error) {
	for range maxRepeats {
		f := e.files.Load()
		if err = do(f); !e.repeatable(f, err) || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, lwio.ErrStale) && e.files.Load() == f {
			if renewed := e.renew(ctx, f); renewed != nil {
				return fmt.Errorf("%w, and it was not opened again: %w", err, renewed)
			}
		}
	}
	return err
}

// renew replaces the opens old after the server has closed them.
func (e *Export) renew(ctx context.Context, old *files) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.files.Load() != old {
		return nil // another request has done it
	}
	if e.written.Load() != e.flushed.Load() {
		return errUnflushed
	}
	f, err := e.open(ctx)
	if err != nil {
		return err
	}
	err = e.isSame(old.plain.OpenInfo(), f.plain.OpenInfo())
	if err == nil && !e.replace(f) {
		err = errUnflushed
	}
	if err != nil {
		return errors.Join(err, f.close())
	}
	e.closing.Go(func() { _ = old.close() }) // the server has no such opens
	return nil
}

// replace makes f the opens of the file, unless there are writes that were not flushed.
func (e *Export) replace(f *files) bool {
	e.counting.Lock()
	defer e.counting.Unlock()
	if e.written.Load() != e.flushed.Load() {
		return false
	}
	e.files.Store(f)
	return true
}

// wrote notes a write to f that is not on stable storage. It reports false if f was replaced meanwhile: the write has to
// be done again, because a FLUSH of the new opens says nothing about it.
func (e *Export) wrote(f *files) bool {
	e.counting.Lock()
	defer e.counting.Unlock()
	if e.files.Load() != f {
		return false
	}
	e.written.Add(1)
	return true
}

// isSame returns an error unless now describes the file of before.
func (e *Export) isSame(before, now fs.FileInfo) error {
	a, b := before.Sys().(*lwio.SMBInfo).ID, now.Sys().(*lwio.SMBInfo).ID
	switch {
	case a != b:
		return errors.New("another file has its name now")
	case uint64(now.Size()) < e.size:
		return fmt.Errorf("it has %d bytes now, not %d", now.Size(), e.size)
	}
	return nil
}
