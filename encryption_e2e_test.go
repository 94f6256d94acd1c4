package lwio_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
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

// A client works with each choice of the server. It requires encryption by its configuration or
// by the URL; a server without encryption is then refused.
//
// Source: [MS-SMB2 3.2.4.1.8]
func TestEncryptionOfClientAndServer(t *testing.T) {
	for _, e := range []server.Encryption{server.EncryptionOffered, server.EncryptionOff, server.EncryptionRequired} {
		t.Run(e.String(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true, Encryption: e})
			roundTrip(t, s.Client(nil))
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
				roundTrip(t, c)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A client that requires encryption uses no provider that others on the network can read, and
// names the cause. A confidential provider is used.
//
// Source: [OP-114]
func TestRequiredEncryptionUsesConfidentialProvidersOnly(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	plain := []rdma.Provider{iwarp.New(nil)}
	c := s.Client(&lwio.Config{RequireEncryption: true, Providers: plain})
	if tr := c.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, "encryption is required") {
		t.Errorf("transport %v", tr)
	}
	roundTrip(t, c)
	if _, err := lwio.Dial(t.Context(), s.URL(), &lwio.Config{RequireEncryption: true, RequireRDMA: true, Providers: plain}); !errors.Is(err, lwio.ErrNoRDMA) {
		t.Errorf("RDMA and encryption over iwarp: %v", err)
	}
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == "iwarp" {
			continue
		}
		c := s.Client(&lwio.Config{RequireEncryption: true, RequireRDMA: true, Providers: []rdma.Provider{p}})
		if tr := c.Transport(); tr.Name != p.Name() {
			t.Errorf("transport %v", tr)
		}
		roundTrip(t, c)
	}
}
