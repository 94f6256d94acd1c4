package lwio_test

import (
	"bytes"
	"io"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
)

// Client and server agree on reads that are completed by immediate data, in every
// mode of the client: the end of the file, small reads and large ones. Polling and sealed connections
// have none.
//
// Source: [LWIO §Read], [LWIO §Vectored Read], [OP-85], [OP-86], [OP-87], [OP-92a]
func TestImmediateDataEndToEnd(t *testing.T) {
	for _, via := range transports() {
		if via.cfg.SMBOnly {
			continue
		}
		t.Run(via.name, func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{ImmediateData: true, Providers: []rdma.Provider{via.cfg.Providers[0]}})
			c := s.Client(&via.cfg)
			want := random(3<<20+5, 8)
			put(t, c, "f", want)
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, len(want)+1)
			if n, err := f.ReadAt(got, 0); n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) { //nolint:errorlint // the contract says bare
				t.Fatal(n, err)
			}
			for range 50 { // of all kinds, so that adaptive calls do both
				if n, err := f.ReadAt(got[:700], 1000); n != 700 || err != nil || !bytes.Equal(got[:n], want[1000:][:n]) {
					t.Fatal(n, err)
				}
				segs := [][]byte{got[:4096], got[8192:12288], got[4096:5000]}
				if n, err := f.ReadVec(t.Context(), segs, 1); n != 9096 || err != nil || !bytes.Equal(segs[1], want[4097:][:4096]) {
					t.Fatal(n, err)
				}
			}
			immediate := via.cfg.Completion != lwio.Polling && !via.cfg.RequireEncryption
			if n := s.Server.Stats().ImmediateReads; (n > 0) != immediate {
				t.Errorf("%d reads were completed by immediate data", n)
			}
		})
	}
}
