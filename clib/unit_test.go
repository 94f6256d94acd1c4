package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio"
	"lwio/internal/ntstatus"
	"lwio/lwiotest"
)

// A handle is valid for objects of its kind, until it is removed, and is not used again.
func TestHandlesAreUsedOnce(t *testing.T) {
	h := handles{objects: make(map[uint64]any)}
	a, b := h.add("a"), h.add(1)
	if s, err := object[string](&h, a); s != "a" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	for _, bad := range []uint64{0, b, b + 1} {
		if _, err := object[string](&h, bad); !errors.Is(err, syscall.EBADF) {
			t.Errorf("handle %d: %v", bad, err)
		}
	}
	if _, err := remove[int](&h, a); !errors.Is(err, syscall.EBADF) {
		t.Errorf("remove of another kind: %v", err)
	}
	if s, err := remove[string](&h, a); s != "a" || err != nil {
		t.Errorf("remove: %q, %v", s, err)
	}
	if _, err := remove[string](&h, a); !errors.Is(err, syscall.EBADF) {
		t.Errorf("second remove: %v", err)
	}
	if c := h.add("c"); c == a || c == b {
		t.Errorf("handle %d is used twice", c)
	}
}

// Each error has the errno of its meaning, the special before the general.
func TestErrorsHaveErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{fmt.Errorf("%w: %w", lwio.ErrUncertain, context.DeadlineExceeded), syscall.EREMOTEIO},
		{&lwio.Error{Op: "read", Err: lwio.ErrStale}, syscall.ESTALE},
		{&lwio.Error{Op: "lock", Status: ntstatus.LockNotGranted}, syscall.EAGAIN},
		{lwio.ErrBatchFull, syscall.EAGAIN},
		{lwio.ErrBufferBusy, syscall.EBUSY},
		{lwio.ErrSpoofed, syscall.EKEYREJECTED},
		{lwio.ErrProtocol, syscall.EPROTO},
		{fmt.Errorf("%w: %w", lwio.ErrNoRDMA, net.ErrClosed), syscall.EPROTONOSUPPORT},
		{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
		{context.Canceled, syscall.ECANCELED},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, syscall.ENETUNREACH},
		{&net.DNSError{Err: "no such host", Name: "x"}, syscall.EHOSTUNREACH},
		{ntstatus.DeletePending, syscall.EBUSY},
		{ntstatus.DiskFull, syscall.ENOSPC},
		{ntstatus.MediaWriteProtected, syscall.EROFS},
		{ntstatus.NameTooLong, syscall.ENAMETOOLONG},
		{ntstatus.LogonFailure, syscall.EACCES},
		{ntstatus.BadNetworkName, syscall.ENOENT},
		{ntstatus.DirectoryNotEmpty, syscall.ENOTEMPTY},
		{fs.ErrExist, syscall.EEXIST},
		{fs.ErrClosed, syscall.EBADF},
		{net.ErrClosed, syscall.ENOTCONN},
		{errors.ErrUnsupported, syscall.EOPNOTSUPP},
		{invalid("x"), syscall.EINVAL},
		{badHandle{}, syscall.EBADF},
		{errFull, syscall.EAGAIN},
		{io.EOF, syscall.ENODATA},
		{errors.New("else"), syscall.EIO},
	} {
		if got := errnoOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// Flags of open(2) have their meaning, or are refused.
func TestOpenFlags(t *testing.T) {
	for flags, want := range map[int]int{
		os.O_RDONLY:                                               os.O_RDONLY,
		os.O_RDWR | os.O_CREATE | os.O_EXCL:                       os.O_RDWR | os.O_CREATE | os.O_EXCL,
		os.O_WRONLY | syscall.O_DSYNC:                             os.O_WRONLY | os.O_SYNC,
		os.O_WRONLY | syscall.O_DIRECT:                            os.O_WRONLY | lwio.Unbuffered,
		syscall.O_CLOEXEC | syscall.O_NOCTTY | syscall.O_NOFOLLOW: os.O_RDONLY,
	} {
		if got, err := openFlags(flags); got != want || err != nil {
			t.Errorf("%#x: %#x, %v, want %#x", flags, got, err, want)
		}
	}
	for _, flags := range []int{3, -1, syscall.O_DIRECTORY, 1 << 30} {
		if _, err := openFlags(flags); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%#x: %v", flags, err)
		}
	}
}

// newShare returns a client of a new server, and a file of 64 KiB.
func newShare(t *testing.T) (*lwio.Client, *lwio.File) {
	t.Helper()
	c := lwiotest.NewServer(t, nil).Client(nil)
	if err := c.WriteFile(t.Context(), "f", []byte(strings.Repeat("lwio", 1<<14))); err != nil {
		t.Fatal(err)
	}
	f, err := c.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return c, f
}

// readable reports whether a descriptor is.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// An event batch is in use by several goroutines: each operation has one completion, and the descriptor is
// readable as long as there is one.
func TestEventBatch(t *testing.T) {
	c, f := newShare(t)
	e, err := newEventBatch(c, 8)
	if err != nil {
		t.Fatal(err)
	}
	const workers, each = 4, 100
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = make(map[uint64]int)
	)
	for w := range workers {
		wg.Go(func() {
			started, p := 0, make([]byte, 100)
			for {
				mu.Lock()
				over := len(seen) == workers*each
				mu.Unlock()
				if over {
					return
				}
				if started < each {
					n, err := e.submit(1, func(int) operation {
						return operation{file: f, p: p[:0], tag: uint64(w*each + started)}
					})
					if err != nil {
						t.Error(err)
						return
					}
					started += n
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := e.reap(ctx, 3, 1, true, func(_ int, d lwio.Completion) {
					mu.Lock()
					defer mu.Unlock()
					if seen[d.Tag]++; d.Err != nil || seen[d.Tag] > 1 {
						t.Errorf("%+v, %d times", d, seen[d.Tag])
					}
				})
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if readable(t, e.fd) {
		t.Error("the descriptor is readable without a completion")
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
	if err := e.close(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("second close: %v", err)
	}
	if _, err := e.submit(1, nil); !errors.Is(err, syscall.EBADF) {
		t.Errorf("submit after close: %v", err)
	}
}

// A reap with room for one completion leaves the others, and the descriptor stays readable until the last.
func TestReapInParts(t *testing.T) {
	c, f := newShare(t)
	for _, make := range []func() (batch, error){
		func() (batch, error) { return newDirectBatch(c, 4), nil },
		func() (batch, error) { return newEventBatch(c, 4) },
	} {
		b, err := make()
		if err != nil {
			t.Fatal(err)
		}
		next := func(i int) operation { return operation{file: f, tag: uint64(i)} }
		if n, err := b.submit(5, next); n != 4 || err != nil {
			t.Errorf("%d of 5 taken, %v, want 4", n, err)
		}
		if n, err := b.submit(1, next); n != 0 || err != nil {
			t.Errorf("%d taken by a full batch, %v", n, err)
		}
		for i := range 4 {
			n, err := b.reap(t.Context(), 1, 1, true, func(int, lwio.Completion) {})
			if n != 1 || err != nil {
				t.Errorf("completion %d: %d, %v", i, n, err)
			}
			if b, ok := b.(*eventBatch); ok {
				b.mu.Lock()
				if readable(t, b.fd) != (len(b.ready) > 0) {
					t.Errorf("with %d completions the descriptor is readable: %v", len(b.ready), readable(t, b.fd))
				}
				b.mu.Unlock()
			}
		}
		if n, err := b.reap(t.Context(), 1, 1, true, nil); n != 0 || err != nil {
			t.Errorf("%d completions of nothing, %v", n, err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}
