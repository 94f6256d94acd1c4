package lwio_test

import (
	"bytes"
	"os"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/server"
)

// The server throttles the reads and writes of a user, over SMB as over RDMA.
func TestByteRate(t *testing.T) {
	run := func(name string, cfg lwio.Config) {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Options{Limits: server.Limits{ByteRate: 1 << 20, ByteBurst: 4096}})
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
