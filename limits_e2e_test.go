package lwio_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/server"
)

// The server throttles the reads and writes of a user, over SMB as over RDMA.
func TestByteRateThrottlesReadsAndWrites(t *testing.T) {
	run := func(name string, cfg lwio.Config) {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{Limits: server.Limits{ByteRate: 1 << 20, ByteBurst: 4096}})
			c := s.Client(&cfg)
			want := random(200_000, 1)
			put(t, c, "f", want)
			written := s.Server.Stats().Throttled
			f, err := c.OpenFile(t.Context(), "f", os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, len(want))
			if n, err := f.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
				t.Error(n, err)
			}
			if all := s.Server.Stats().Throttled; written == 0 || all == written {
				t.Errorf("%d writes and %d reads waited", written, all-written)
			}
		})
	}
	run(lwio.TransportSMB, lwio.Config{SMBOnly: true})
	for _, p := range lwio.DefaultProviders() {
		run(p.Name(), lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}})
	}
}

// A read that ends before its last requests are sent leaves nothing in flight.
//
// Source: [OP-97]
func TestShortReadLeavesNothingInFlight(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	for _, provider := range lwio.DefaultProviders() {
		t.Run(provider.Name(), func(t *testing.T) {
			c := s.Client(&lwio.Config{Providers: []rdma.Provider{provider}, RequireRDMA: true, Credits: 8, MaxReadSize: 1 << 16})
			f, err := c.Create(t.Context(), "short-"+provider.Name())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, 1<<17), 0); err != nil {
				t.Fatal(err)
			}
			if n, err := f.ReadAt(make([]byte, 8<<20), 0); n != 1<<17 || err != io.EOF { //nolint:errorlint // the contract says bare
				t.Fatalf("%d bytes, %v", n, err)
			}
			if st := c.Stats(); st.InFlight != 0 {
				t.Errorf("%d in flight", st.InFlight)
			}
		})
	}
}
