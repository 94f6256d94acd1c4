package mount

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"lwio/internal/test/skip"
	"lwio/lwiotest"
)

// mounted mounts the share of a server on a new directory. change changes the configuration; nil changes nothing.
func mounted(t *testing.T, s *lwiotest.Server, change func(*Config)) (dir string) {
	t.Helper()
	cfg := config(t, s)
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Error(err)
		}
		m.Wait()
	})
	return cfg.Dir
}

// config returns the configuration of a mount on a new directory.
func config(t *testing.T, s *lwiotest.Server) Config {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Test(t, "there is no FUSE")
	}
	return Config{
		Client: s.Client(nil), Dir: t.TempDir(), Source: "test", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
		FileMode: 0o755, DirMode: 0o755, Timeout: time.Minute,
	}
}

// gaps are the tests of others that the mount does not pass, and why.
var gaps = map[string]string{
	"FcntlFlockLocksFile": "the project that has the tests does not run this one either",
	"Link":                noLinks,
	"LinkUnlinkRename":    noLinks,
	"OpenSymlinkRace":     noLinks,
	"SetattrSymlink":      noLinks,
	"SymlinkReadlink":     noLinks,
}

const noLinks = "SMB without POSIX extensions has no links"

// The mount passes the tests of file systems of package posixtest, but for the gaps.
func TestMountPassesPosixTests(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"direct", nil},
		{"page cache", func(c *Config) { c.PageCache = true }},
		{"remember", func(c *Config) { c.Remember = time.Minute }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := mounted(t, lwiotest.NewServer(t, nil), c.change)
			for name, test := range posixtest.All {
				t.Run(name, func(t *testing.T) {
					if why, ok := gaps[name]; ok {
						t.Log("gap:", why)
						return
					}
					sub := filepath.Join(dir, name)
					if err := os.Mkdir(sub, 0o755); err != nil {
						t.Fatal(err)
					}
					test(t, sub)
				})
			}
		})
	}
}
