package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSizeAndFormatSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "512b": 512, "4k": 4096, "4K": 4096, "64KiB": 65536, "3m": 3 << 20, "2mb": 2 << 20, "1g": 1 << 30, "1T": 1 << 40,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "k", "-1", "0", "4x", "4kk", "1.5k", "9999999999999t", "4k4", "b4"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%q: %d", in, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 1<<50).Draw(t, "n")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%d is %s is %d, %v", n, FormatSize(n), got, err)
		}
	})
}

// A quantile is within two percent of the true one.
func TestHistogramQuantileWithinTwoPercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h, other Histogram
		var all []time.Duration
		for _, d := range rapid.SliceOfN(rapid.Int64Range(0, 1<<42), 1, 100).Draw(t, "d") {
			all = append(all, time.Duration(d))
			if d%2 == 0 {
				h.Add(time.Duration(d))
			} else {
				other.Add(time.Duration(d))
			}
		}
		h.Merge(&other)
		slices.Sort(all)
		if h.Count() != uint64(len(all)) || h.Max() != all[len(all)-1] {
			t.Fatalf("%d, at most %v", h.Count(), h.Max())
		}
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			rank := max(int(q*float64(len(all))+0.5), 1)
			want := float64(all[rank-1])
			if got := float64(h.Quantile(q)); math.Abs(got-want) > want/50+1 {
				t.Fatalf("quantile %v is %v, want %v", q, got, want)
			}
		}
	})
	var none Histogram
	if none.Mean() != 0 || none.Quantile(0.5) != 0 || none.Max() != 0 {
		t.Error("an empty histogram has figures")
	}
}

func TestContentDiffersByOffset(t *testing.T) {
	p := make([]byte, 4096)
	fill(p, 8192, original)
	if err := verify(p, 8192, original); err != nil {
		t.Fatal(err)
	}
	if verify(p, 4096, original) == nil || verify(p, 8192, written) == nil || bytes.Equal(p[:8], p[8:16]) {
		t.Error("another place or generation has the same content")
	}
	p[1000] ^= 1
	if err := verify(p, 8192, original); err == nil || !strings.Contains(err.Error(), "offset 9192") {
		t.Errorf("a flipped bit: %v", err)
	}
}

// fake is a target that does nothing, or calls its functions.
type fake struct {
	name  string
	open  error
	do    func(o Operation, p []byte) (int, error)
	conn  error        // of a connection as a whole
	conns atomic.Int64 // open now
	read  int64        // how far the file was read outside the measurement
}

func (f *fake) Name() string { return f.name }

func (f *fake) Completion() string { return "some" }

func (f *fake) Open(context.Context, *Job) (Conn, error) {
	if f.open != nil {
		return nil, f.open
	}
	f.conns.Add(1)
	return fakeConn{f}, nil
}

type fakeConn struct{ *fake }

func (c fakeConn) Run(_ context.Context, w *Worker) error {
	w.Calls(cut(make([]byte, w.Job.Depth*w.Job.BlockSize), w.Job.BlockSize), func(o Operation, p []byte) (int, error) {
		if c.do == nil {
			fill(p, o.Off, original)
			return len(p), nil
		}
		return c.do(o, p)
	})
	return c.conn
}

func (c fakeConn) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if c.read == off {
		c.read += int64(len(p))
	}
	fill(p, off, original)
	return len(p), nil
}

func (c fakeConn) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return len(p), nil }

func (c fakeConn) Close() error { c.conns.Add(-1); return nil }

func job() *Job {
	return &Job{Pattern: RandRead, BlockSize: 512, FileSize: 1 << 20, Depth: 3, Jobs: 2, Runtime: 20 * time.Millisecond, Verify: true}
}

func noCPU() (client, server time.Duration) { return 0, -1 }

func TestRunCountsOperations(t *testing.T) {
	f := &fake{name: "fake"}
	r, err := Run(t.Context(), f, job(), noCPU)
	if err != nil || r.Operations == 0 || r.Bytes != 512*r.Operations || r.Errors != 0 || f.conns.Load() != 0 || r.IOPS() <= 0 || r.ServerPerOp() >= 0 {
		t.Errorf("%+v, %v, %d connections open", r, err, f.conns.Load())
	}
}

// A run has an operation of each connection, even on a busy machine.
func TestRunIsNeverEmpty(t *testing.T) {
	j := job()
	j.Runtime = 1
	for range 20 {
		r, err := Run(t.Context(), &fake{name: "fake"}, j, noCPU)
		if err != nil || r.Operations < uint64(j.Jobs) {
			t.Fatalf("%d operations, %v", r.Operations, err)
		}
	}
}

func TestRunReportsFailures(t *testing.T) {
	broken := errors.New("broken")
	for name, f := range map[string]*fake{
		"open":        {open: broken},
		"operation":   {do: func(Operation, []byte) (int, error) { return 0, broken }},
		"short":       {do: func(_ Operation, p []byte) (int, error) { return len(p) - 1, nil }},
		"wrong bytes": {do: func(_ Operation, p []byte) (int, error) { return len(p), nil }},
		"connection":  {conn: broken},
	} {
		f.name = "fake"
		if _, err := Run(t.Context(), f, job(), noCPU); err == nil || !strings.HasPrefix(err.Error(), "fake: ") || f.conns.Load() != 0 {
			t.Errorf("%s: %v, %d connections open", name, err, f.conns.Load())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, &fake{name: "fake"}, job(), noCPU); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// Each target of a comparison has its turns, and a failed target does not affect the
// others.
func TestCompareTakesTurns(t *testing.T) {
	turns := make(map[string]int)
	bad := &fake{name: "bad", open: errors.New("no way")}
	all, err := Compare(t.Context(), []Target{&fake{name: "a"}, bad, &fake{name: "b"}}, job(), 3, noCPU, func(t Target) { turns[t.Name()]++ })
	if err != nil || turns["a"] != 3 || turns["b"] != 3 || turns["bad"] != 1 {
		t.Fatalf("%v, turns %v", err, turns)
	}
	if all[0].IOPS <= 0 || all[0].Failure != nil || all[1].Failure == nil || all[1].IOPS != 0 || all[2].P50 > all[2].Latency.Max() || Err(all) == nil {
		t.Errorf("%+v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Compare(ctx, []Target{&fake{name: "a"}}, job(), 3, noCPU, func(Target) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestLocalFileRunsEveryPattern(t *testing.T) {
	l := &Local{Path: filepath.Join(t.TempDir(), "f")}
	if err := MakeFile(l.Path, 100_000); err != nil {
		t.Fatal(err)
	}
	if err := MakeFile(l.Path, 1); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file in the way: %v", err)
	}
	for _, p := range []Pattern{RandRead, SeqRead, RandWrite, SeqWrite, RandMixed, SeqMixed} {
		j := job()
		j.Pattern, j.FileSize = p, 100_000/8*8
		if r, err := Run(t.Context(), l, j, noCPU); err != nil || r.Operations == 0 {
			t.Errorf("%s: %+v, %v", p, r, err)
		}
	}
	if fi, err := os.Stat(l.Path); err != nil || fi.Size() != 100_000 {
		t.Errorf("afterwards: %v, %v", fi, err)
	}
}

func TestJobCheckNamesTheFlag(t *testing.T) {
	if err := job().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Job){
		"--rw":            func(j *Job) { j.Pattern = "trim" },
		"--bs":            func(j *Job) { j.BlockSize = 1 << 30 },
		"--iodepth":       func(j *Job) { j.Depth = 0 },
		"--numjobs":       func(j *Job) { j.Jobs = -1 },
		"--runtime":       func(j *Job) { j.Runtime = 0 },
		"no 1 blocks":     func(j *Job) { j.FileSize = 511 },
		"--verify":        func(j *Job) { j.BlockSize = 511 },
		"--ramp":          func(j *Job) { j.Ramp = -1 },
		"--ioengine":      func(j *Job) { j.Engine = "uring" },
		"--rwmixread":     func(j *Job) { j.ReadPercent = 101 },
		"--iodepth-batch": func(j *Job) { j.BatchComplete = j.Depth + 1 },
		"no 3 blocks":     func(j *Job) { j.Engine, j.FileSize = EngineVec, 3*512-1 },
	} {
		j := job()
		spoil(j)
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// An untimed job counts operations, and has no latencies.
func TestUntimedJobOmitsLatencies(t *testing.T) {
	j := job()
	j.Untimed = true
	r, err := Run(t.Context(), &fake{name: "fake"}, j, noCPU)
	if err != nil || r.Operations == 0 || r.Latency.Count() != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var out strings.Builder
	if err := WriteTable(&out, j, []Summary{Summarize(&fake{name: "fake"}, r, nil)}); err != nil || strings.Contains(out.String(), "NaN") {
		t.Errorf("%v: %s", err, out.String())
	}
}
