package main

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio/server"
)

func TestPasswordFileHasOneOrManyUsers(t *testing.T) {
	for _, c := range []struct {
		name, content, user string
		want                server.Users
		err                 string
	}{
		{"one user", "secret\nnot this\n", "bob", server.Users{"bob": "secret"}, ""},
		{"one user, DOS", "secret\r\n", "bob", server.Users{"bob": "secret"}, ""},
		{"no end of line", "secret", "bob", server.Users{"bob": "secret"}, ""},
		{"long password", strings.Repeat("p", 100000), "bob", server.Users{"bob": strings.Repeat("p", 100000)}, ""},
		{"empty, one user", "", "bob", nil, "first line is empty"},
		{"empty line, one user", "\nsecret\n", "bob", nil, "first line is empty"},
		{"several", "# us\nbob:a:b\r\n\nann: c\n", "", server.Users{"bob": "a:b", "ann": " c"}, ""},
		{"comment only", "# no user\n", "", nil, "no user"},
		{"no colon", "bob:x\nann\n", "", nil, "line 2"},
		{"no name", ":x\n", "", nil, "line 1"},
		{"too long", strings.Repeat("p", maxPasswordFile+1), "bob", nil, "longer"},
	} {
		file := write(t, []byte(c.content), t.TempDir(), "pw")
		got, err := readCredentials(file, c.user)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %d users, %v", c.name, len(got), err)
		}
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

// --smb-encryption has three values, and offered is the default.
func TestServeRefusesUnknownEncryption(t *testing.T) {
	for name, want := range map[string]server.Encryption{
		"off": server.EncryptionOff, "offered": server.EncryptionOffered, "required": server.EncryptionRequired,
	} {
		if got, err := encryptionOf(name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "on", "Required"} {
		r := run(t, exitUsage, "serve", "--listen", "127.0.0.1:0", "--smb-encryption", name, t.TempDir())
		if !strings.Contains(r.err, "off, offered or required") {
			t.Errorf("%q: %s", name, r.err)
		}
	}
}

// The name of a share that cannot be served is refused in the command's own words.
func TestServeRefusesShareNames(t *testing.T) {
	r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "IPC$="+t.TempDir())
	if !strings.HasPrefix(r.err, `lwio: share "IPC$": `) {
		t.Errorf("message %q", r.err)
	}
}
