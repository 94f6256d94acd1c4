package smbclient

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// holder is a fake that holds changes until the test sends their responses.
type holder struct {
	f    *fake
	file *File
	held []smbwire.Header
}

func newHolder(t *testing.T) *holder {
	var h holder
	f, tree := fakeMount(t, func(f *fake) {
		f.on = func(_ *fake, q smbwire.Header, _ []byte) bool {
			if q.Command != smbwire.CommandWrite && q.Command != smbwire.CommandSetInfo {
				return false
			}
			h.held = append(h.held, q)
			return true
		}
	}, nil)
	h.f, h.file = f, open(t, tree, readWrite("f"))
	return &h
}

// giveUp makes a change whose context ends at once.
func giveUp(t *testing.T, change func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := change(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	synctest.Wait()
}

// unsettled fails the test if Settle does not wait.
func (h *holder) unsettled(t *testing.T) {
	t.Helper()
	giveUp(t, h.file.Settle)
}

// An abandoned change is settled when the server has responded to it: each piece of a write,
// and a new size, with any status.
//
// Source: [MS-SMB2 3.2.4.24], [MS-SMB2 3.3.5.16]
func TestSettleWaitsForAbandonedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolder(t)
		if err := h.file.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		giveUp(t, func(ctx context.Context) error {
			_, err := h.file.WriteAt(ctx, make([]byte, maxPiece+1), 0)
			return err
		})
		giveUp(t, func(ctx context.Context) error { return h.file.SetSize(ctx, 5) })
		if len(h.held) != 3 || h.f.count(smbwire.CommandCancel) != 3 {
			t.Fatalf("%v", h.f.requests())
		}
		h.unsettled(t)
		h.f.reply(h.held[0], ntstatus.Success, &smbwire.WriteResponse{Count: maxPiece})
		h.unsettled(t)
		h.f.reply(h.held[1], ntstatus.Cancelled, &smbwire.ErrorResponse{})
		h.unsettled(t)
		waited := make(chan error, 1)
		go func() { waited <- h.file.Settle(t.Context()) }()
		synctest.Wait()
		h.f.reply(h.held[2], ntstatus.Cancelled, &smbwire.ErrorResponse{})
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if err := h.file.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Neither a forged response nor the end of the connection settles a change.
//
// Source: [MS-SMB2 3.2.5.1.3]
func TestForgedResponseDoesNotSettle(t *testing.T) {
	for name, happens := range map[string]func(h *holder){
		"forged": func(h *holder) {
			b := h.f.answer(h.held[0], ntstatus.Cancelled, &smbwire.ErrorResponse{})
			b[len(b)-1] ^= 1
			h.f.write(b)
		},
		"lost": func(h *holder) { h.f.nc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolder(t)
				giveUp(t, func(ctx context.Context) error {
					_, err := h.file.WriteAt(ctx, []byte("x"), 0)
					return err
				})
				waited := make(chan error, 1)
				go func() { waited <- h.file.Settle(t.Context()) }()
				synctest.Wait()
				happens(h)
				if err := <-waited; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				if err := h.file.Settle(t.Context()); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// A write with a refused piece returns after the responses to its other pieces. Without those
// responses the error is not the refusal.
//
// Source: [MS-SMB2 3.2.5.12]
func TestRefusedWriteWaitsForPiecesInFlight(t *testing.T) {
	const refused = ntstatus.FileLockConflict
	for name, answers := range map[string]bool{"all responses arrive": true, "one is missing": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolder(t)
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() {
					_, err := h.file.WriteAt(ctx, make([]byte, 2*maxPiece+1), 0)
					over <- err
				}()
				synctest.Wait()
				h.f.reply(h.held[0], refused, &smbwire.ErrorResponse{})
				h.f.reply(h.held[2], ntstatus.Success, &smbwire.WriteResponse{Count: 1})
				synctest.Wait()
				if len(over) > 0 {
					t.Fatalf("returned before the server was done: %v", <-over)
				}
				want := error(refused)
				if answers {
					h.f.reply(h.held[1], ntstatus.Success, &smbwire.WriteResponse{Count: maxPiece})
				} else {
					want = context.Canceled
				}
				synctest.Wait()
				cancel()
				err := <-over
				if !errors.Is(err, want) || errors.Is(err, refused) != answers {
					t.Error(err)
				}
			})
		})
	}
}

// A write without responses returns after one timeout, with any number of pieces in flight,
// and its error names the timeout once.
func TestWriteWithUnknownOutcomeReturnsAtOnce(t *testing.T) {
	for name, end := range map[string]struct {
		patience time.Duration // of the caller
		want     string
	}{
		"given up":    {time.Second, "no response in time: context deadline exceeded"},
		"no response": {2 * DefaultTimeout, "no response in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolder(t)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), end.patience)
				defer cancel()
				_, err := h.file.WriteAt(ctx, make([]byte, 2*maxPiece+1), 0)
				if took := time.Since(began); took != min(end.patience, DefaultTimeout) || err == nil || err.Error() != end.want {
					t.Errorf("after %v: %v", took, err)
				}
				h.unsettled(t)
			})
		})
	}
}
