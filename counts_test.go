package lwio

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var k counts
	for _, ns := range []int64{-5, 0, 1, 1000, 1023, 1024, 1 << 40, 1<<63 - 1} {
		k.took(ns)
	}
	var s Stats
	k.snapshot(&s)
	if h := s.Latency; h.Count() != 8 || h[0] != 2 || h[1] != 1 || h[10] != 2 || h[11] != 1 || h[41] != 1 || h[63] != 1 {
		t.Errorf("%v", h)
	}
	for q, want := range map[float64]time.Duration{-1: 1, 0.25: 1, 0.5: 1024, 0.625: 1024, 0.75: 2048, 1: 1 << 62, 2: 1 << 62} {
		if got := s.Latency.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}

// Each request of I/O is counted once, by how its answer came.
func TestStatsByMode(t *testing.T) { onEach(t, testStatsByMode) }

func testStatsByMode(t *testing.T, on string) {
	for _, mode := range []CompletionMode{Polling, Interrupt} {
		share := newFakeShare()
		share.put("f", pattern(1000))
		s := newRawServer(t, on, share)
		s.mode = mode
		c := s.connect(Config{})
		f := openOn(t, c, "f")
		for range 5 {
			if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
				t.Fatal(err)
			}
		}
		st := c.Stats()
		got := [2]uint64{st.Polled, st.Interrupts}
		if want := [2]uint64{5, 0}; mode == Polling && got != want || mode == Interrupt && got != [2]uint64{0, 5} {
			t.Errorf("%v: %v", mode, got)
		}
		if st.Latency.Count() != 5 || st.Latency.Quantile(1) == 0 || st.RDMA.Reads != 5 || st.SpuriousWakeUps > st.WakeUps {
			t.Errorf("%+v", st)
		}
	}
}
