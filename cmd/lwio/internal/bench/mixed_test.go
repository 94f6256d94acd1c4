package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// A mixed job has reads and writes in the given proportion, and its report has both.
func TestMixedJobCountsBothDirections(t *testing.T) {
	for percent, wantWrites := range map[int]float64{0: 1, 30: 0.7, 100: 0} {
		l := &Local{Path: filepath.Join(t.TempDir(), "f")}
		if err := MakeFile(l.Path, 1<<20); err != nil {
			t.Fatal(err)
		}
		j := job()
		j.Pattern, j.ReadPercent, j.Ramp = RandMixed, percent, time.Millisecond
		r, err := Run(t.Context(), l, j, noCPU)
		if err != nil || r.Operations != r.Reads.Operations+r.Writes.Operations || r.Latency.Count() != r.Operations {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := float64(r.Writes.Operations) / float64(r.Operations); math.Abs(got-wantWrites) > 0.2 {
			t.Errorf("%d %% reads: %.2f of %d operations are writes", percent, got, r.Operations)
		}
		var out bytes.Buffer
		if err := WriteJSON(&out, j, []Summary{Summarize(l, r, nil)}); err != nil {
			t.Fatal(err)
		}
		var rows []summaryJSON
		if err := json.Unmarshal(out.Bytes(), &rows); err != nil || rows[0].Read == nil || rows[0].Write == nil || rows[0].ReadPercent == nil ||
			rows[0].Read.Operations+rows[0].Write.Operations != r.Operations || rows[0].Operations != r.Operations || rows[0].Runtime <= 0 {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}

// Reads during writes are verified: each word has the original or the written content.
func TestMixedJobVerifiesReads(t *testing.T) {
	j := job()
	j.Pattern, j.ReadPercent = RandMixed, 50
	for spoil, ok := range map[byte]bool{0: true, 1: false} {
		f := &fake{name: "fake", do: func(o Operation, p []byte) (int, error) {
			if !o.Write {
				fill(p[:256], o.Off, written)
				fill(p[256:], o.Off+256, original)
				p[300] ^= spoil
			}
			return len(p), nil
		}}
		w := newWorker(j, 0, 100, new(atomic.Bool))
		w.stop.Store(true)
		if err := (fakeConn{f}).Run(t.Context(), w); err != nil || (w.first == nil) != ok {
			t.Errorf("%v, %v", err, w.first)
		}
	}
}
