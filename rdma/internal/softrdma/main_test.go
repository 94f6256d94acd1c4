package softrdma

import (
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
)

// testTimeout bounds the waits of tests.
const testTimeout = time.Minute

func TestMain(m *testing.M) { leakcheck.Main(m) }

// waitFor polls results, and waits if there are none.
func waitFor(t testing.TB, q rdma.CompletionQueue, results []rdma.Result) (int, error) {
	for {
		if n, err := q.Poll(results); n > 0 || err != nil {
			return n, err
		}
		if err := q.Wait(t.Context(), rdma.NotifyAny); err != nil {
			return 0, err
		}
	}
}
