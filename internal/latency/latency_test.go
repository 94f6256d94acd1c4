package latency

import (
	"testing"
	"time"
)

// Each bucket counts the durations below its bound and not below the bound before.
func TestBucketsCountBelowBound(t *testing.T) {
	var c Counter
	for _, x := range []struct {
		d      time.Duration
		bucket int
	}{
		{-5, 0}, {0, 0}, {1, 1}, {2, 2}, {1000, 10}, {1023, 10}, {1024, 11}, {Bound(20) - 1, 20}, {Bound(20), 21},
		{1 << 40, 41}, {1<<62 - 1, 62}, {1 << 62, 63},
	} {
		before := c.Snapshot()
		c.ObserveMany(x.d, 1)
		after := c.Snapshot()
		for i := range after.Counts {
			want := before.Counts[i]
			if i == x.bucket {
				want++
			}
			if after.Counts[i] != want {
				t.Errorf("%v: bucket %d has %d, want %d", x.d, i, after.Counts[i], want)
			}
		}
		if after.Sum-before.Sum != max(x.d, 0) || after.Count() != before.Count()+1 {
			t.Errorf("%v: the sum grew by %v, the count by %d", x.d, after.Sum-before.Sum, after.Count()-before.Count())
		}
	}
}

func TestQuantileReturnsBucketBound(t *testing.T) {
	var c Counter
	for _, d := range []time.Duration{-5, 0, 1, 1000, 1023, 1024, 1 << 40, 1<<63 - 1} {
		c.ObserveMany(d, 1)
	}
	h := c.Snapshot()
	for q, want := range map[float64]time.Duration{-1: 1, 0.25: 1, 0.5: 1024, 0.625: 1024, 0.75: 2048, 1: 1 << 62, 2: 1 << 62} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}

func TestSumAddsHistograms(t *testing.T) {
	var a, b Counter
	a.ObserveMany(5, 2)
	b.ObserveMany(5, 3)
	b.ObserveMany(1000, 1)
	got := Sum(a.Snapshot(), b.Snapshot())
	want := Histogram{Sum: 5*5 + 1000}
	want.Counts[3], want.Counts[10] = 5, 1
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
