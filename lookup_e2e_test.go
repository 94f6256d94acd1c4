package lwio_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/server"
)

// wantSameStat checks that two clients of one share, of which one has no RDMA, describe a name alike.
func wantSameStat(t *testing.T, c, overSMB *lwio.Client, name string) {
	t.Helper()
	got, err := c.Stat(t.Context(), name)
	want, wantErr := overSMB.Stat(t.Context(), name)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v; over SMB %v", name, err, wantErr)
	}
	if err != nil {
		for _, class := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid} {
			if errors.Is(err, class) != errors.Is(wantErr, class) {
				t.Errorf("%q: %v; over SMB %v", name, err, wantErr)
			}
		}
		return
	}
	g, w := got.Sys().(*lwio.SMBInfo), want.Sys().(*lwio.SMBInfo)
	if got.Name() != want.Name() || got.Size() != want.Size() || !got.ModTime().Equal(want.ModTime()) || got.Mode() != want.Mode() ||
		g.Attributes != w.Attributes || g.ID != w.ID || g.AllocationSize != w.AllocationSize || !g.Created.Equal(w.Created) {
		t.Errorf("%q: %+v %+v; over SMB %+v %+v", name, got, g, want, w)
	}
}

// From the third description by name on they go over RDMA, with the results that SMB has: after changes by this client
// and by others, too.
//
// Source: [OP-118]
func TestStatGoesOverRDMA(t *testing.T) {
	for name, cfg := range map[string]lwiotest.Config{"plain": {}, "sealed": {Encryption: server.EncryptionRequired}} {
		for _, p := range lwio.DefaultProviders() {
			t.Run(name+"/"+p.Name(), func(t *testing.T) {
				s := lwiotest.NewServer(t, &cfg)
				c := s.Client(&lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}})
				overSMB := s.Client(&lwio.Config{SMBOnly: true})
				must(t, os.MkdirAll(filepath.Join(s.Dir, "d", "e"), 0o700))
				must(t, os.WriteFile(filepath.Join(s.Dir, "d", "e", "größe €"), random(1000, 1), 0o600))
				names := []string{"", "d", "d/e", "d/e/größe €", "none", "none/none", "d/e/größe €/f", "d/"}
				for range 2 {
					wantSameStat(t, c, overSMB, "d")
				}
				before := c.Stats().FileCalls
				for _, name := range names {
					wantSameStat(t, c, overSMB, name)
				}
				if n := c.Stats().FileCalls - before; n != uint64(len(names)) {
					t.Errorf("%d of %d descriptions went over RDMA", n, len(names))
				}
				must(t, c.Rename(t.Context(), "d/e", "d/g"))
				wantSameStat(t, c, overSMB, "d/e")
				wantSameStat(t, c, overSMB, "d/g/größe €")
				must(t, os.WriteFile(filepath.Join(s.Dir, "d", "new"), random(10, 1), 0o400))
				wantSameStat(t, c, overSMB, "d/new")
				must(t, c.Close())
			})
		}
	}
}

// The audit log has descriptions by name over RDMA, and names the user.
//
// Source: [OP-118]
func TestAuditLogHasLookups(t *testing.T) {
	var log logBuffer
	s := lwiotest.NewServer(t, &lwiotest.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: server.LevelAudit}))})
	c := s.Client(&lwio.Config{RequireRDMA: true})
	must(t, os.Mkdir(filepath.Join(s.Dir, "d"), 0o700))
	for range 3 {
		if _, err := c.Stat(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); c.Stats().FileCalls != 1 || !strings.Contains(got, "msg=lookup ") || !strings.Contains(got, "path=d user=tester") {
		t.Errorf("%d calls over RDMA, and the log %s", c.Stats().FileCalls, got)
	}
}

// A loss of the RDMA connection, of the SMB connection or of both costs no description.
//
// Source: [OP-118]
func TestStatOutlivesLosses(t *testing.T) {
	onLink(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link) {
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(1000, 1), 0o600))
		for i := range 30 {
			if info, err := c.Stat(t.Context(), "f"); err != nil || info.Size() != 1000 {
				t.Fatal(i, info, err)
			}
			if _, err := c.Stat(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(i, err)
			}
			if i%5 == 4 {
				link.Cut()
			}
		}
		if c.Transport().RDMA() && c.Stats().FileCalls == 0 {
			t.Error("no description went over RDMA")
		}
	})
}
