package stream

import "testing"

// TestStagePiecesAreExclusive takes all pieces of a stage. The memory is freed only when all
// pieces are back and were not used since the last trim.
func TestStagePiecesAreExclusive(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		budget := NewBudget(stagePieces * stageSize)
		a, _ := pair(t, f, setup{active: Config{Memory: budget}})
		seen := make(map[*piece]bool)
		for {
			p, err := a.stage.take()
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				break
			}
			if seen[p] || len(p.buf) != stageSize {
				t.Errorf("a piece of %d bytes, taken twice: %t", len(p.buf), seen[p])
			}
			seen[p] = true
		}
		if len(seen) != stagePieces || budget.left.Load() != 0 {
			t.Errorf("%d pieces, %d bytes of the budget left", len(seen), budget.left.Load())
		}
		for range 2 { // the first trim only notes that the stage was used
			if !a.stage.trim() {
				t.Error("a trim frees pieces in use")
			}
		}
		for p := range seen {
			a.stage.give(p)
		}
		if a.stage.trim() || budget.left.Load() != stagePieces*stageSize {
			t.Errorf("after the trim %d bytes of the budget are left", budget.left.Load())
		}
	})
}
