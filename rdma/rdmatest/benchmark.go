package rdmatest

import (
	"strconv"
	"testing"

	"lwio/rdma"
)

// Benchmark measures operations whose cost depends little on the transport, each as a
// sub-benchmark of b.
func Benchmark(b *testing.B, cfg Config) {
	for name, step := range map[string]int{"window/together": 2, "window/apart": 1} {
		b.Run(name, func(b *testing.B) {
			benchmarkWindow(b, &rig{TB: b, cfg: cfg, provider: cfg.New(b)}, step)
		})
	}
	for _, size := range []int{4 << 10, 1 << 30} {
		b.Run("register/"+strconv.Itoa(size), func(b *testing.B) {
			benchmarkRegister(b, &rig{TB: b, cfg: cfg, provider: cfg.New(b)}, size)
		})
	}
}

// benchmarkWindow measures a window for one request of a protocol: one silent bind and one
// silent invalidate, posted step at a time.
func benchmarkWindow(b *testing.B, r *rig, step int) {
	e, _ := r.pair(shape{})
	w := e.window()
	reqs := []rdma.Request{
		{Op: rdma.OpBind, Flags: allowWrite | rdma.FlagSilentSuccess, Window: w, Region: e.region, Length: 4096},
		{Op: rdma.OpInvalidate, Flags: rdma.FlagSilentSuccess, Window: w},
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := 0; i < len(reqs); i += step {
			if _, err := e.qp.Post(reqs[i : i+step]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// benchmarkRegister registers and deregisters memory of the Go heap.
func benchmarkRegister(b *testing.B, r *rig, size int) {
	a := r.adapter()
	buf := make([]byte, size)
	b.ReportAllocs()
	for b.Loop() {
		m, err := a.RegisterMemory(b.Context(), buf, rdma.AccessRemoteWrite)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}
