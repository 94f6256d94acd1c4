package ratelimit

import (
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// The level falls with time, never below zero, and rises by each addition.
func TestBucketLeaksAtItsRate(t *testing.T) {
	var b Bucket
	now := time.Unix(1000, 0)
	if got := b.Level(now, 5); got != 0 {
		t.Errorf("a new bucket has level %v", got)
	}
	for _, s := range []struct {
		after time.Duration
		add   float64
		want  float64
	}{
		{0, 10, 10}, {time.Second, 0, 5}, {time.Second, 1, 1}, {time.Hour, 2, 2}, {-time.Minute, 1, 3},
	} {
		now = now.Add(s.after)
		if got := b.Add(now, 5, s.add); got != s.want {
			t.Errorf("%v later, with %v added: level %v, want %v", s.after, s.add, got, s.want)
		}
	}
}

// A caller that adds only below a limit adds no more than the limit and the leak.
func TestBucketBoundsEventsToLimitAndRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.1, 1000).Draw(t, "perSecond")
		limit := float64(rapid.IntRange(1, 50).Draw(t, "limit"))
		var b Bucket
		start := time.Unix(0, 0)
		now, events := start, 0.0
		for range rapid.IntRange(0, 200).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause")))
			if b.Level(now, perSecond) < limit {
				b.Add(now, perSecond, 1)
				events++
			}
		}
		if most := limit + now.Sub(start).Seconds()*perSecond + 1.001; events > most {
			t.Fatalf("%v events, at most %v are allowed", events, most)
		}
	})
}
