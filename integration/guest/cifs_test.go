package guest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio"
	"lwio/integration/guest"
	"lwio/integration/internal/wiretap"
	"lwio/internal/test/skip"
	"lwio/lwiotest"
	"lwio/server"
)

// mountPoint is the directory of the guest where the kernel mounts a share.
const mountPoint = "/mnt"

// cifsName and cifsText are a name and a content that an encrypted connection does not show.
const (
	cifsName = "clearly-a-name"
	cifsText = "clearly-the-data"
)

// makeTree makes a directory tree in the guest: modules of the kernel, and files with unusual
// names and sizes.
const makeTree = `
rm -rf /tmp/tree && mkdir -p /tmp/tree/sub/deep /tmp/tree/empty
cp -r /usr/lib/modules/*/kernel/crypto /tmp/tree/sub
: >"/tmp/tree/no bytes"
head -c 300001 /usr/bin/busybox >/tmp/tree/sub/deep/ämter
yes ` + cifsText + ` | head -c 200000 >/tmp/tree/` + cifsName

// cifsMount is a mount of one of our servers by the kernel of the guest.
type cifsMount struct {
	g       *guest.Guest
	server  *lwiotest.Server
	tap     *wiretap.Tap
	options string
}

// newCifsMount starts a server. The guest reaches the server through a wiretap.
func newCifsMount(t *testing.T, g *guest.Guest, encryption server.Encryption, options string) *cifsMount {
	t.Helper()
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true, Encryption: encryption})
	tap := wiretap.Start(t, s.Addr())
	return &cifsMount{g: g, server: s, tap: tap, options: fmt.Sprintf("ip=%s,port=%s,user=%s,pass=%s,%s",
		guest.Host, tap.Port, lwiotest.User, s.Password(), options)}
}

// shell runs a script in the guest.
func (m *cifsMount) shell(t *testing.T, script string) string {
	t.Helper()
	out, err := m.g.Run(limit(t), "sh", "-ec", script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// attach mounts the share until the end of the test.
func (m *cifsMount) attach(t *testing.T) {
	t.Helper()
	m.shell(t, fmt.Sprintf("mkdir -p %[1]s; busybox mount -i -t cifs -o '%[2]s' '//%[3]s/%[4]s' %[1]s", mountPoint, m.options, guest.Host, lwiotest.Share))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), exchangeTime)
		defer cancel()
		if _, err := m.g.Run(ctx, "sh", "-c", "! grep -q ' "+mountPoint+" cifs ' /proc/mounts || umount "+mountPoint); err != nil {
			t.Error(err)
		}
	})
}

// sums are the hashes of the files of a directory of the host, by their paths.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all["./"+filepath.ToSlash(rel)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// guestSums are the hashes of the files of a directory of the guest, by their paths.
func (m *cifsMount) guestSums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(m.shell(t, "cd "+dir+" && find . -type f -exec sha256sum {} +")) {
		sum, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			t.Fatalf("sha256sum printed %q", line)
		}
		all[path] = sum
	}
	return all
}

// copyTree copies a tree to the share. Afterwards the guest reads it back on a new mount, and the
// host reads it in the served directory. Both find the same files.
func (m *cifsMount) copyTree(t *testing.T) {
	t.Helper()
	m.shell(t, makeTree)
	m.attach(t)
	m.shell(t, "cp -r /tmp/tree "+mountPoint+"/tree; umount "+mountPoint)
	m.attach(t)
	m.shell(t, "diff -r /tmp/tree "+mountPoint+"/tree")
	want := m.guestSums(t, "/tmp/tree")
	if got := sums(t, filepath.Join(m.server.Dir, "tree")); len(want) < 5 || !maps.Equal(got, want) {
		t.Errorf("the host has %v, the guest had %v", got, want)
	}
	m.shell(t, "cd "+mountPoint+"/tree; mv 'no bytes' renamed; rm sub/deep/*; rmdir sub/deep empty; test -f renamed")
	if _, err := os.Stat(filepath.Join(m.server.Dir, "tree", "empty")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removed directory: %v", err)
	}
}

// locks takes locks of one file in the guest and in a client of the host. Each side is refused
// the bytes that the other side has locked, and gets all others.
func (m *cifsMount) locks(t *testing.T) {
	t.Helper()
	ctx := limit(t)
	if err := os.WriteFile(filepath.Join(m.server.Dir, "locked"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := m.server.Client(nil).OpenFile(ctx, "locked", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.TryLock(ctx, lwio.Range{Len: 10}, lwio.LockExclusive); err != nil {
		t.Fatal(err)
	}
	agent := func(offset string) []string {
		return []string{"./agent", "lock", mountPoint + "/locked", offset, "10"}
	}
	if out, err := m.g.Run(ctx, agent("5")...); err == nil || !strings.Contains(out, "locked by another process") {
		t.Errorf("the guest locks bytes that the host has locked: %v", err)
	}
	holder := background(t, m.g, agent("20")...)
	eventually(ctx, t, "the guest locks other bytes", func() bool { return strings.Contains(holder.Output(), "locked\n") })
	if err := f.TryLock(ctx, lwio.Range{Off: 29, Len: 1}, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
		t.Errorf("the host locks a byte that the guest has locked: %v", err)
	}
	if err := f.TryLock(ctx, lwio.Range{Off: 30, Len: 1}, lwio.LockExclusive); err != nil {
		t.Errorf("a byte behind the lock of the guest: %v", err)
	}
	holder.Kill()
	eventually(ctx, t, "the lock of the guest ends with its process", func() bool {
		return f.TryLock(ctx, lwio.Range{Off: 29, Len: 1}, lwio.LockExclusive) == nil
	})
}

// TestKernelMountsWithAndWithoutEncryption mounts a share by the kernel's SMB client, cifs.ko,
// signed and encrypted ("seal"), and against a server that requires encryption. On each mount it
// copies a tree, compares it, and locks bytes of a file beside a client of the host.
//
// Source: [MS-SMB2 3.3.5.2.1.1], [MS-SMB2 3.3.5.14]
func TestKernelMountsWithAndWithoutEncryption(t *testing.T) {
	g := boot(t)
	if out, err := g.Run(limit(t), "modprobe", "cifs"); err != nil {
		skip.Test(t, "the kernel of the guest has no cifs module", out)
	}
	for _, x := range []struct {
		name       string
		encryption server.Encryption
		options    string
		encrypted  bool
	}{
		{"3.1.1 signed", server.EncryptionOffered, "vers=3.1.1", false},
		{"3.1.1 encrypted", server.EncryptionOffered, "vers=3.1.1,seal", true},
		{"3.0 encrypted", server.EncryptionOffered, "vers=3.0,seal", true},
		{"3.1.1 with a server that requires encryption", server.EncryptionRequired, "vers=3.1.1", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := newCifsMount(t, g, x.encryption, x.options)
			m.copyTree(t)
			m.locks(t)
			if encrypted := !m.tap.Has(cifsName) && !m.tap.Has(cifsText); encrypted != x.encrypted {
				t.Errorf("encrypted: %t, want %t", encrypted, x.encrypted)
			}
		})
	}
	t.Run("2.1 with a server that requires encryption", func(t *testing.T) {
		m := newCifsMount(t, g, server.EncryptionRequired, "vers=2.1")
		out, err := g.Run(limit(t), "busybox", "mount", "-i", "-t", "cifs", "-o", m.options, "//"+guest.Host+"/"+lwiotest.Share, mountPoint)
		if err == nil || !strings.Contains(out, "Permission denied") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
