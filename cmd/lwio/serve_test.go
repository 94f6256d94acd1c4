package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio/cmd/lwio/internal/secret"
	"lwio/server"
)

// The first line of a password file is the password of --user. Without --user the file is a file of
// users.
func TestPasswordFileHasOneOrManyUsers(t *testing.T) {
	for _, c := range []struct {
		name, content, user string
		want                map[string]string
		err                 string
	}{
		{"one user", "secret\nnot this\n", "bob", map[string]string{"bob": "secret"}, ""},
		{"one user, DOS", "secret\r\n", "bob", map[string]string{"bob": "secret"}, ""},
		{"no end of line", "secret", "bob", map[string]string{"bob": "secret"}, ""},
		{"long password", strings.Repeat("p", 100000), "bob", map[string]string{"bob": strings.Repeat("p", 100000)}, ""},
		{"empty, one user", "", "bob", nil, "first line is empty"},
		{"empty line, one user", "\nsecret\n", "bob", nil, "first line is empty"},
		{"several", "# us\nbob:a:b\r\n\nann: c\n", "", map[string]string{"bob": "a:b", "ann": " c"}, ""},
		{"too long", strings.Repeat("p", secret.MaxSize+1), "bob", nil, "longer"},
	} {
		file := writeSecret(t, c.content, t.TempDir(), "pw")
		got, err := readUsers(file, c.user)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || len(got.Users()) != len(c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
			continue
		}
		for user, password := range c.want {
			if _, hash, ok := got.Lookup("", user); !ok || hash != server.NTHash(password) {
				t.Errorf("%s: %s has another password", c.name, user)
			}
		}
	}
}

// A server without a user, or with files that it must not use, does not start.
func TestServeRefusesFilesOfUsers(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"comments only":  {"# no user\n", 0o600, "no user in it"},
		"empty":          {"", 0o600, "no user in it"},
		"empty password": {"bob:x\nalice:\n", 0o600, "line 2: the password is empty"},
		"group may read": {"alice:secret\n", 0o640, "chmod 600"},
		"all may write":  {"alice:secret\n", 0o602, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && c.mode != 0o600 {
				return // the system has no such modes
			}
			file := writeSecret(t, c.content, t.TempDir(), "users")
			if err := os.Chmod(file, c.mode); err != nil {
				t.Fatal(err)
			}
			r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "--password-file", file, dir)
			if !strings.Contains(r.err, c.want) || !strings.Contains(r.err, file) || strings.Contains(r.err, "secret") {
				t.Errorf("message %q, want %q", r.err, c.want)
			}
		})
	}
}

// full is an output on which every write fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A server that cannot print its URLs does not start.
func TestServeCannotPrint(t *testing.T) {
	var log lockedBuffer
	a := &app{stdin: strings.NewReader(""), stdout: full{}, stderr: &log, env: func(string) string { return "" }}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // which ends a server that starts, with success
	defer cancel()
	if code := a.run(ctx, []string{"serve", "--listen", "127.0.0.1:0", t.TempDir()}); code != exitFailure || !strings.Contains(log.String(), syscall.ENOSPC.Error()) {
		t.Errorf("exit status %d, %s", code, log.String())
	}
}

func TestShareNameComesFromTheArgument(t *testing.T) {
	dir := t.TempDir()
	equals := filepath.Dir(write(t, nil, dir, "a=b", "file"))
	for arg, want := range map[string]string{dir: filepath.Base(dir), "x=" + dir: "x", "x=" + equals: "x", equals: "a=b"} {
		shares, err := openShares([]string{arg}, false)
		if err != nil {
			t.Errorf("serve %s: %v", arg, err)
			continue
		}
		if shares[0].Name != want {
			t.Errorf("serve %s: share %q, want %q", arg, shares[0].Name, want)
		}
		shares[0].Backend.Close()
	}
}

// --encryption has three values, and no others.
func TestServeRefusesUnknownEncryption(t *testing.T) {
	for _, name := range []string{"on", "Required"} {
		r := run(t, exitUsage, "serve", "--listen", "127.0.0.1:0", "--encryption", name, t.TempDir())
		if !strings.Contains(r.err, "off, offered or required") {
			t.Errorf("%q: %s", name, r.err)
		}
	}
}

// --leases has three values, and no others.
func TestServeGrantsTheLeasesOfItsFlag(t *testing.T) {
	for name, want := range map[string]server.Leases{"all": server.LeasesAll, "files": server.LeasesOfFiles, "off": server.LeasesOff} {
		o, err := optionsOf(t, "--leases", name)
		if got := o.chosenLeases(); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if o, err := optionsOf(t); o.chosenLeases() != server.LeasesAll || err != nil {
		t.Errorf("default: %v, %v", o.chosenLeases(), err)
	}
	for _, name := range []string{"on", "Off"} {
		r := run(t, exitUsage, "serve", "--listen", "127.0.0.1:0", "--leases", name, t.TempDir())
		if !strings.Contains(r.err, "all, files or off") {
			t.Errorf("%q: %s", name, r.err)
		}
	}
}

// Encryption is required beyond loopback, unless --insecure-network is given.
func TestServeRequiresEncryptionBeyondLoopback(t *testing.T) {
	for _, tt := range []struct {
		listen, encryption string
		insecure           bool
		want               server.Encryption
		refused            bool
	}{
		{"127.0.0.1:0", "", false, server.EncryptionOffered, false},
		{"[::1]:0", "off", false, server.EncryptionOff, false},
		{"localhost:0", "required", false, server.EncryptionRequired, false},
		{"0.0.0.0:0", "", false, server.EncryptionRequired, false},
		{"192.0.2.1:445", "required", false, server.EncryptionRequired, false},
		{":445", "offered", false, 0, true},
		{"db1:445", "off", false, 0, true},
		{"0.0.0.0:0", "", true, server.EncryptionOffered, false},
		{"0.0.0.0:0", "off", true, server.EncryptionOff, false},
		{"0.0.0.0", "", false, 0, true},
	} {
		o, err := optionsOf(t, "--listen", tt.listen, "--encryption", tt.encryption, fmt.Sprintf("--insecure-network=%t", tt.insecure))
		if (err != nil) != tt.refused || err == nil && o.chosenEncryption() != tt.want {
			t.Errorf("%+v: %v, %v", tt, o.chosenEncryption(), err)
		}
	}
	o, err := optionsOf(t, "--listen", "127.0.0.1:0", "--rdma-listen", "127.0.0.1:1,192.0.2.1:5445")
	if got := o.chosenEncryption(); got != server.EncryptionRequired || err != nil {
		t.Errorf("with RDMA beyond loopback: %v, %v", got, err)
	}
}

// The name of a share that cannot be served is refused in the command's own words.
func TestServeRefusesShareNames(t *testing.T) {
	r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "IPC$="+t.TempDir())
	if !strings.HasPrefix(r.err, `lwio: share "IPC$": `) {
		t.Errorf("message %q", r.err)
	}
}

// serve --rdma-listen fixes the RDMA port, which clients then use. An address that is not loopback
// needs a password file.
func TestServeListensAtRDMAAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	s := startServer(t, t.TempDir(), "--rdma-listen", at, "--provider", "iwarp")
	if r := run(t, exitOK, "doctor", s.url+"?provider=iwarp"); !strings.Contains(r.out, at) {
		t.Errorf("the RDMA connection is not at %s:\n%s", at, r.out)
	}
	for _, bad := range []string{"0.0.0.0:5445", "127.0.0.1", "localhost:1"} {
		run(t, exitUsage, "serve", "--listen", "127.0.0.1:0", "--rdma-listen", bad, "data="+t.TempDir())
	}
}
