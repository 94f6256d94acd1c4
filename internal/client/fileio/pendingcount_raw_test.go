package fileio

import (
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// The number in a header counts the calls that wait for credits: the first request after the
// server answered one of those in flight counts all calls but that one.
//
// Source: [LWIO claim 22], [OP-97]
func TestHeaderCountsCallsThatWaitForCredits(t *testing.T) {
	onEach(t, testHeaderCountsCallsThatWaitForCredits)
}

func testHeaderCountsCallsThatWaitForCredits(t *testing.T, on string) {
	const calls = 12
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, on, share)
	s.mode, s.grant = base.Interrupt, 2
	held := make(chan func(), 2)
	var answering atomic.Bool
	var most atomic.Int32 // the largest number in requests behind the first two
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead {
			return false
		}
		if answering.Load() {
			most.Store(max(most.Load(), int32(h.Credits)))
			return false
		}
		held <- func() { c.answer(h, body) }
		return true
	}
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after the client is closed
	c := s.connect(base.Config{Completion: base.Interrupt, Credits: 2})
	f := openOn(t, c, "f")
	for range calls {
		readers.Go(func() {
			if _, err := f.ReadAt(make([]byte, 100), 0); err != nil {
				t.Error(err)
			}
		})
	}
	first, second := <-held, <-held
	waitFor(t, func() bool { return c.Stats().InFlight == calls })
	answering.Store(true)
	first()
	second()
	readers.Wait()
	if n := most.Load(); n < calls-2 || n > calls {
		t.Errorf("a header says %d, with %d calls", n, calls)
	}
}
