package fileio

import (
	"testing"

	"lwio/internal/client/base"
)

// Each request of I/O is counted once, by how its answer came.
func TestStatsByMode(t *testing.T) { onEach(t, testStatsByMode) }

func testStatsByMode(t *testing.T, on string) {
	for _, mode := range []base.CompletionMode{base.Polling, base.Interrupt} {
		share := newFakeShare()
		share.put("f", pattern(1000))
		s := newRawServer(t, on, share)
		s.mode = mode
		c := s.connect(base.Config{})
		f := openOn(t, c, "f")
		for range 5 {
			if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
				t.Fatal(err)
			}
		}
		st := c.Stats()
		got := [2]uint64{st.Polled, st.Interrupts}
		if want := [2]uint64{5, 0}; mode == base.Polling && got != want || mode == base.Interrupt && got != [2]uint64{0, 5} {
			t.Errorf("%v: %v", mode, got)
		}
		if st.Latency.Count() != 5 || st.Latency.Quantile(1) == 0 || st.RDMA.Reads != 5 || st.SpuriousWakeups > st.Wakeups {
			t.Errorf("%+v", st)
		}
	}
}
