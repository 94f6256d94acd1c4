//go:build linux

package shm

import (
	"net/netip"
	"strconv"
	"testing"

	"lwio/rdma"
)

// BenchmarkWindow is the cost of a window for one request of a protocol: one bind
// and one invalidate, in silence, posted together or apart.
func BenchmarkWindow(b *testing.B) {
	for name, step := range map[string]int{"together": 2, "apart": 1} {
		b.Run(name, func(b *testing.B) {
			client, _ := connected(b, nil, 1<<20)
			w, err := client.a.CreateMemoryWindow()
			if err != nil {
				b.Fatal(err)
			}
			reqs := []rdma.Request{
				{Op: rdma.OpBind, Flags: rdma.FlagAllowWrite | rdma.FlagSilentSuccess, Window: w, Region: client.region, Length: 4096},
				{Op: rdma.OpInvalidate, Flags: rdma.FlagSilentSuccess, Window: w},
			}
			b.ReportAllocs()
			for b.Loop() {
				for i := 0; i < 2; i += step {
					if _, err := client.qp.Post(reqs[i : i+step]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRegister registers and deregisters memory of the Go heap.
func BenchmarkRegister(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 30} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			a, err := New(nil).OpenAdapter(b.Context(), netip.Addr{})
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			buf := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				m, err := a.RegisterMemory(b.Context(), buf, rdma.AccessRemoteWrite)
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}
