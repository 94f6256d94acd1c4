package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"lwio"
	"lwio/integration/internal/ledger"
)

// usage is the use of a file by one goroutine of a session.
type usage struct {
	s         *soak
	c         *lwio.Client
	transport string
	r         *rand.Rand
	file      *file
	scratch   string // the name of a file of its own

	f   *lwio.File
	buf *lwio.Buffer
}

// run does some hundred operations, fewer if over ends first.
func (u *usage) run(over context.Context) error {
	err := u.open()
	for n := 20 + u.r.IntN(400); n > 0 && err == nil && over.Err() == nil; n-- {
		switch k := u.r.IntN(100); {
		case k < 45:
			err = u.read()
		case k < 85:
			err = u.write()
		case k < 90:
			err = u.sync()
		case k < 95:
			if err = u.close(); err == nil {
				err = u.open()
			}
		default:
			err = u.scribble()
		}
	}
	if u.f != nil && u.r.IntN(4) > 0 { // else the close of the client closes it
		err = errors.Join(err, u.close())
	}
	if u.buf != nil {
		err = errors.Join(err, u.buf.Close())
	}
	return err
}

func (u *usage) open() error {
	u.s.counts.opens.Add(1)
	return u.s.watch.do("open", func() (err error) {
		u.f, err = u.c.OpenFile(context.Background(), u.file.name, os.O_RDWR, 0)
		return err
	})
}

func (u *usage) close() error {
	f := u.f
	u.f = nil
	return u.s.watch.do("close", f.Close)
}

func (u *usage) sync() error {
	u.s.counts.syncs.Add(1)
	return u.s.watch.do("sync", func() error { return u.f.Sync(context.Background()) })
}

// scribble makes a file, reads it, and removes it.
func (u *usage) scribble() error {
	return u.s.watch.do("scribble", func() error {
		ctx := context.Background()
		content := bytes.Repeat([]byte{byte(u.r.Uint32())}, 1+u.r.IntN(50_000))
		if err := put(ctx, u.c, u.scratch, content); err != nil {
			return err
		}
		f, err := u.c.Open(ctx, u.scratch)
		if err != nil {
			return err
		}
		got := make([]byte, len(content))
		if _, err = f.ReadAt(got, 0); err == nil && !bytes.Equal(got, content) {
			err = fmt.Errorf("%s: wrong bytes", u.scratch)
		}
		return errors.Join(err, f.Close(), u.c.Remove(ctx, u.scratch))
	})
}

// patience returns a context and reports whether it ends soon. Over SMB alone it does not:
// the outcome of a cancelled write is unknown there.
func (u *usage) patience() (context.Context, context.CancelFunc, bool) {
	if u.transport == lwio.TransportSMB || u.r.IntN(10) > 0 {
		return context.Background(), func() {}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(u.r.IntN(5000))*time.Microsecond)
	return ctx, cancel, true
}

// memory returns n bytes, of a Buffer or of the heap.
func (u *usage) memory(n int) ([]byte, error) {
	if u.r.IntN(2) == 0 {
		return make([]byte, n), nil
	}
	if u.buf != nil && u.buf.Busy() {
		if err := u.buf.Close(); err != nil {
			return nil, err
		}
		u.buf = nil
	}
	if u.buf == nil {
		var err error
		if u.buf, err = u.c.Alloc(context.Background(), partSize); err != nil {
			return nil, err
		}
	}
	return u.buf.Bytes()[:n:n], nil
}

// place returns a random range of blocks of a part.
func (u *usage) place() (l *ledger.Ledger, at, n int) {
	l = u.file.parts[u.r.IntN(partsPerFile)]
	at = u.r.IntN(partBlocks)
	n = 1 + u.r.IntN(min(partBlocks-at, 1<<u.r.IntN(9)))
	return l, at, n
}

// pieces cuts memory into pieces of whole blocks.
func (u *usage) pieces(p []byte) (list [][]byte) {
	n := ledger.BlockSize << u.r.IntN(5)
	for len(p) > n {
		list, p = append(list, p[:n]), p[n:]
	}
	return append(list, p)
}

// read reads some blocks and checks them.
func (u *usage) read() error {
	l, at, n := u.place()
	p, err := u.memory(n * ledger.BlockSize)
	if err != nil {
		return err
	}
	ctx, cancel, short := u.patience()
	defer cancel()
	v := l.View(at, n)
	got := 0
	err = u.s.watch.do("read", func() (err error) {
		got, err = u.transfer(ctx, false, p, int64(l.First+at)*ledger.BlockSize)
		return err
	})
	u.s.counts.reads.Add(1)
	u.s.counts.bytes.Add(uint64(got))
	if err != nil {
		if short && errors.Is(err, context.DeadlineExceeded) {
			u.s.counts.left.Add(1)
			return nil
		}
		return fmt.Errorf("%d blocks: %w", n, err)
	}
	return l.Check(v, p, at)
}

// write writes some blocks. After an unknown outcome it waits until they are written, or
// can no longer be written.
func (u *usage) write() error {
	l, at, n := u.place()
	if !l.Turn.TryLock() {
		return nil // another goroutine writes there
	}
	defer l.Turn.Unlock()
	p, err := u.memory(n * ledger.BlockSize)
	if err != nil {
		return err
	}
	ctx, cancel, short := u.patience()
	defer cancel()
	write := l.Begin(at, n)
	ledger.Fill(p, l.File, l.First+at, write)
	done := 0
	err = u.s.watch.do("write", func() (err error) {
		done, err = u.transfer(ctx, true, p, int64(l.First+at)*ledger.BlockSize)
		return err
	})
	l.End(write, at, n, done/ledger.BlockSize, err != nil)
	u.s.counts.writes.Add(1)
	u.s.counts.bytes.Add(uint64(done))
	left := short && errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return nil
	case left:
		u.s.counts.left.Add(1)
	case errors.Is(err, lwio.ErrUncertain):
		u.s.counts.uncertain.Add(1)
	default:
		return fmt.Errorf("%d blocks: %w", n, err)
	}
	if err := u.sync(); err != nil {
		return err
	}
	l.Settle()
	return nil
}

// transfer reads or writes: by a vectored call, a Batch, or a plain call.
func (u *usage) transfer(ctx context.Context, write bool, p []byte, off int64) (int, error) {
	switch k := u.r.IntN(3); {
	case k == 0 && write:
		return u.f.WriteVec(ctx, u.pieces(p), off)
	case k == 0:
		return u.f.ReadVec(ctx, u.pieces(p), off)
	case k == 1:
		return u.batch(ctx, write, u.pieces(p), off)
	case write:
		return u.f.WriteAtContext(ctx, p, off)
	}
	return u.f.ReadAtContext(ctx, p, off)
}

// batch reads or writes piece by piece. It returns the number of bytes that are done.
func (u *usage) batch(ctx context.Context, write bool, pieces [][]byte, off int64) (int, error) {
	b := u.c.NewBatch(len(pieces))
	defer b.Close()
	add := b.ReadAt
	if write {
		add = b.WriteAt
	}
	for i, p := range pieces {
		if err := add(u.f, p, off, uint64(i)); err != nil {
			return 0, err
		}
		off += int64(len(p))
	}
	sizes := make([]int, len(pieces))
	for b.Pending() > 0 {
		done, err := b.Wait(ctx, 1)
		for _, d := range done {
			sizes[d.Tag] = d.N
			if d.Err != nil {
				return 0, d.Err
			}
		}
		if err != nil {
			return 0, err
		}
	}
	n := 0
	for _, size := range sizes {
		n += size
	}
	return n, nil
}
