//go:build unix

package kerberos

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lwio/internal/smb/smbauth"
)

// A credential cache that another user can have written is refused: the client would log on as that user, and write the
// data of its own user into files of the other. A named pipe does not make the client wait.
func TestCacheOfAnotherUserIsRefused(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "krb5.conf")
	if err := os.WriteFile(config, []byte("[libdefaults]\n default_realm = TEST\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "cache")
	refused := func(want string) {
		t.Helper()
		c := &Client{ConfigFile: config, CacheFile: name}
		_, err := c.Begin(context.Background(), smbauth.KerberosCredentials{Host: "host"})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, mode := range []fs.FileMode{0o620, 0o602, 0o666} {
		if err := errors.Join(os.WriteFile(name, []byte{5, 4, 0, 0}, 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		refused("other users may change it")
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		refused("another user owns it")
	} else if info, err := os.Stat(name); err != nil || checkOwnerFor(info, os.Geteuid()) != nil ||
		!errors.Is(checkOwnerFor(info, os.Geteuid()+1), fs.ErrPermission) {
		t.Error("the owner of the file is not the one that counts", err)
	}
	if err := errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	refused("not a file")
}
