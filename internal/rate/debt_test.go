package rate

import (
	"testing"
	"time"

	"lwio/internal/leakcheck"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// A debt falls with time, never below nothing, and grows by what is added.
func TestDebt(t *testing.T) {
	var d Debt
	now := time.Unix(1000, 0)
	if got := d.At(now, 5); got != 0 {
		t.Errorf("a new debt of %v", got)
	}
	for _, s := range []struct {
		after time.Duration
		add   float64
		want  float64
	}{
		{0, 10, 10}, {time.Second, 0, 5}, {time.Second, 1, 1}, {time.Hour, 2, 2}, {-time.Minute, 1, 3},
	} {
		now = now.Add(s.after)
		if got := d.Add(now, 5, s.add); got != s.want {
			t.Errorf("%v later, and %v more: %v, want %v", s.after, s.add, got, s.want)
		}
	}
}

// Who adds only while the debt is below a limit has no more than the limit and what
// became free meanwhile.
func TestDebtBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.1, 1000).Draw(t, "perSecond")
		limit := float64(rapid.IntRange(1, 50).Draw(t, "limit"))
		var d Debt
		start := time.Unix(0, 0)
		now, had := start, 0.0
		for range rapid.IntRange(0, 200).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause")))
			if d.At(now, perSecond) < limit {
				d.Add(now, perSecond, 1)
				had++
			}
		}
		if most := limit + now.Sub(start).Seconds()*perSecond + 1.001; had > most {
			t.Fatalf("had %v, at most %v", had, most)
		}
	})
}
