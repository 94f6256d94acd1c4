package survive

import (
	"context"
	"errors"
	"testing"
	"time"

	"lwio"
)

// attempts is more than the numbers of lock sequences, which have four bits.
const attempts = 40

// Locks that are refused, or that are never sent, use up no lock sequence: none of the later ones is taken for a repetition of the
// last lock that the client got, without a loss, after a loss, and after the death of the server.
//
// Source: [MS-SMB2 3.2.4.19], [MS-SMB2 3.3.5.14]
func TestFailedLocksUseUpNoSequence(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			s := serve(t, t.TempDir(), stateFlags(t, true)...)
			a, b := visit(t, s, transport, "f"), visit(t, s, transport, "f")
			if err := b.f.TryLock(t.Context(), lockedRange, lwio.LockExclusive); err != nil {
				t.Fatal(err)
			}
			refused := func(when string) {
				t.Helper()
				for i := range attempts {
					if err := a.f.TryLock(t.Context(), lockedRange, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
						t.Fatalf("%s, attempt %d: %v", when, i, err)
					}
				}
			}
			refused("with a connection")
			a.refuse.Store(true)
			a.cutRDMA()
			a.cutSMB()
			for unsent := 0; unsent < attempts; {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				err := a.f.TryLock(ctx, lockedRange, lwio.LockExclusive)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					unsent++
				case !errors.Is(err, lwio.ErrLocked): // the loss has not been noticed
					t.Fatalf("without a connection: %v", err)
				}
			}
			a.refuse.Store(false)
			refused("after the loss")
			for range 2 {
				if err := errors.Join(s.Kill(), s.Start()); err != nil {
					t.Fatal(err)
				}
				refused("after the death of the server")
			}
			if err := b.f.Unlock(t.Context(), lockedRange); err != nil {
				t.Errorf("the lock of the other client: %v", err)
			}
			if err := errors.Join(a.f.TryLock(t.Context(), lockedRange, lwio.LockExclusive), a.f.Unlock(t.Context(), lockedRange)); err != nil {
				t.Error(err)
			}
		})
	}
}
