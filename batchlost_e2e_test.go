package lwio_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/server"
)

// TestBatchGoesOn cuts the first connection at each of its operations while a batch does
// operations of several requests each with few credits, so that some are between two of
// theirs: all succeed, and the next connection is not lost too.
//
// Source: [OP-112], [OP-113]
func TestBatchGoesOn(t *testing.T) {
	const size, part = 20_000, 4096
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		step := uint64(1)
		if testing.Short() || raceEnabled {
			step = 5
		}
		for n := uint64(3); n < 40; n += step {
			var cut atomic.Bool
			client, srv := wrap(&fault.Config{Fault: func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N == n {
					cut.Store(true)
					return fault.Cut()
				}
				return fault.Pass()
			}})
			s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{srv},
				Limits: server.Limits{Credits: 2, MaxCredits: 2, MaxRecvBufferSize: part}})
			c := s.Client(&lwio.Config{Providers: []rdma.Provider{client}, RequireRDMA: true, MaxReadSize: part})
			f, err := c.Create(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			want, got := random(4*size, byte(n)), make([]byte, 4*size)
			b := c.NewBatch(4)
			for i, do := range []func(f *lwio.File, p []byte, off int64, tag uint64) error{b.WriteAt, b.ReadAt} {
				p := [][]byte{want, got}[i]
				for at := 0; at < len(p); at += size {
					if err := do(f, p[at:at+size], int64(at), 0); err != nil {
						t.Fatal(err)
					}
				}
				done, err := b.Wait(t.Context(), 4)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range done {
					if d.N != size || d.Err != nil {
						t.Errorf("%+v", d)
					}
				}
			}
			if !bytes.Equal(got, want) {
				t.Error("wrong bytes")
			}
			if st := c.Stats(); cut.Load() && st.Lost != 1 || st.SMB.Reads+st.SMB.Writes > 0 {
				t.Errorf("%+v", st)
			}
			b.Close()
			f.Close()
			if t.Failed() {
				t.Fatalf("the connection was cut at operation %d", n)
			}
		}
	})
}
