package paths

import (
	"context"
	"testing"

	"lwio/internal/client/rdmaconn"
)

// The connection that takes the place of a lost one is for replays alone, until the last call has
// ended its replay.
//
// Source: [OP-112]
func TestNewConnectionIsForReplaysFirst(t *testing.T) {
	for calls := range 3 {
		p := new(Set).newPath(0)
		for range calls {
			p.BeginReplay()
		}
		cn := new(rdmaconn.Conn)
		p.offer(cn)
		for left := calls; left > 0; left-- {
			if p.Live() != nil {
				t.Errorf("%d of %d calls replay writes, and the connection is for all", left, calls)
			}
			if got, err := p.Get(context.Background(), true); got != cn || err != nil {
				t.Errorf("%d of %d calls replay writes, and get %p, %v; want %p", left, calls, got, err, cn)
			}
			p.EndReplay()
		}
		if p.Live() != cn {
			t.Errorf("%d calls have ended their replays, and the connection is not for all", calls)
		}
	}
}
