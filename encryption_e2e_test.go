package lwio_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/server"
)

// roundTrip writes a file and reads it back.
func roundTrip(t *testing.T, c *lwio.Client) {
	t.Helper()
	want := random(300_000, 3)
	put(t, c, "encrypted", want)
	f, err := c.OpenFile(t.Context(), "encrypted", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
		t.Error(n, err)
	}
}

// wantCipher checks that the transport of a client over SMB names a cipher only if it is encrypted.
func wantCipher(t *testing.T, c *lwio.Client, encrypted bool) {
	t.Helper()
	want := ""
	if encrypted {
		want = "AES-128-GCM"
	}
	if tr := c.Transport(); tr.Name != lwio.TransportSMB || tr.Encryption != want {
		t.Errorf("transport %v, encryption %q, want %q", tr, tr.Encryption, want)
	}
}

// A client works with each choice of the server. It requires encryption by its configuration or
// by the URL; a server without encryption is then refused.
//
// Source: [MS-SMB2 3.2.4.1.8]
func TestEncryptionOfClientAndServer(t *testing.T) {
	for _, e := range []server.Encryption{server.EncryptionOffered, server.EncryptionOff, server.EncryptionRequired} {
		t.Run(e.String(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true, Encryption: e})
			c := s.Client(nil)
			wantCipher(t, c, e == server.EncryptionRequired)
			roundTrip(t, c)
			for name, url := range map[string]string{"configuration": s.URL(), "URL": s.URL() + "?encryption=required"} {
				c, err := lwio.Dial(t.Context(), url, &lwio.Config{RequireEncryption: name == "configuration"})
				if e == server.EncryptionOff {
					if err == nil || !strings.Contains(err.Error(), "encryption is required") {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(name, err)
				}
				wantCipher(t, c, true)
				roundTrip(t, c)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A client that requires encryption, or the server or the share of which does, seals its connection
// over a provider that is not confidential. A close of the client is none of the errors of the server.
//
// Source: [OP-114] [OP-114b]
func TestRequiredEncryptionSealsRDMA(t *testing.T) {
	for _, e := range []server.Encryption{server.EncryptionOffered, server.EncryptionRequired} {
		s := lwiotest.NewServer(t, &lwiotest.Config{Encryption: e})
		for _, p := range lwio.DefaultProviders() {
			cfg := lwio.Config{RequireEncryption: e == server.EncryptionOffered, RequireRDMA: true, Providers: []rdma.Provider{p}}
			c := s.Client(&cfg)
			tr := c.Transport()
			want := map[string]string{"iwarp": "AES-128-GCM"}[p.Name()]
			if tr.Name != p.Name() || tr.Encryption != want || strings.Contains(tr.String(), "encrypted with AES-128-GCM") != (want != "") {
				t.Errorf("%v: transport %v", e, tr)
			}
			roundTrip(t, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		waitUntil(t, func() bool { return s.Server.Stats().Connections == 0 })
		if st := s.Server.Stats(); st.Lost+st.Cut != 0 {
			t.Errorf("%d connections are lost and %d cut after a close", st.Lost, st.Cut)
		}
	}
}
