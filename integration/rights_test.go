package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const rightsConfig = `users = "users"
[[share]]
name = "data"
path = "data"
read = ["*"]
write = ["alice"]
[[share]]
name = "private"
path = "private"
write = ["alice"]
`

// addUser adds a user with the password "secret" by 'lwio user'.
func addUser(t *testing.T, file, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), lwioBin, "user", "--file", file, "add", name)
	cmd.Stdin = strings.NewReader("secret\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("add user %s: %v\n%s", name, err, out)
	}
}

// smbclient is bounded by the rights of its user on each share. A user that is removed is disconnected
// within a second of SIGHUP, and the audit log has the events.
func TestSmbclientIsBoundedByRights(t *testing.T) {
	need(t, "smbclient")
	dir := t.TempDir()
	users, audit, config := filepath.Join(dir, "users"), filepath.Join(dir, "audit"), filepath.Join(dir, "lwio.toml")
	for _, share := range []string{"data", "private"} {
		if err := os.Mkdir(filepath.Join(dir, share), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, share, "f"), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(config, []byte(rightsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	addUser(t, users, "alice")
	addUser(t, users, "bob")
	s := serveWith(t, "--config", config, "--audit", audit)
	get := "get f " + filepath.Join(dir, "got")
	for _, c := range []struct{ user, share, commands, want string }{
		{"alice", "data", get + "; put " + config + " g; rename g h; rm h; mkdir d; rmdir d", ""},
		{"ALICE", "private", get, ""},
		{"bob", "data", get + "; ls", ""},
		{"bob", "data", "put " + config + " g", "NT_STATUS_ACCESS_DENIED"},
		{"bob", "data", "rm f", "NT_STATUS_ACCESS_DENIED"},
		{"bob", "data", "rename f g", "NT_STATUS_ACCESS_DENIED"},
		{"bob", "data", "mkdir d", "NT_STATUS_ACCESS_DENIED"},
		{"bob", "private", "ls", "NT_STATUS_ACCESS_DENIED"},
		{"eve", "data", "ls", "NT_STATUS_LOGON_FAILURE"},
	} {
		out, err := smbclient(t, s.host, s.port, c.share, c.user, "secret", c.commands)
		if c.want == "" && (err != nil || strings.Contains(out, "NT_STATUS_")) || !strings.Contains(out, c.want) {
			t.Errorf("%s on %s: %s: %v, want %q\n%s", c.user, c.share, c.commands, err, c.want, out)
		}
	}
	if out, err := smbclient(t, s.host, s.port, "data", "", "", "ls", "-N"); err == nil {
		t.Errorf("a guest is served:\n%s", out)
	}

	for user, shares := range map[string][]string{"alice": {"data", "private", "IPC$"}, "bob": {"data", "IPC$"}} {
		out, err := exec.CommandContext(t.Context(), "smbclient", "-L", s.host, "-p", s.port, "-g", "-U", user+"%secret").CombinedOutput()
		var listed []string
		for _, line := range strings.Split(string(out), "\n") {
			if fields := strings.Split(line, "|"); len(fields) == 3 {
				listed = append(listed, fields[1])
			}
		}
		if err != nil || !slices.Equal(listed, shares) {
			t.Errorf("%s sees %q, want %q: %v\n%s", user, listed, shares, err, out)
		}
	}

	// smbclient stays connected, and lists the directory after the user is removed.
	session := exec.CommandContext(t.Context(), "smbclient", "//"+s.host+"/data", "-p", s.port, "-U", "bob%secret")
	in, err := session.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	session.Stdout, session.Stderr = &out, &out
	connects := func() int {
		text, err := os.ReadFile(audit)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), `"msg":"connect"`)
	}
	before := connects()
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); connects() == before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	mustLwio(t, "user", "--file", users, "rm", "bob")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if _, err := in.Write([]byte("ls\n")); err != nil {
		t.Error(err)
	}
	in.Close()
	_ = session.Wait() // its status does not depend on the answer
	if !strings.Contains(out.String(), "NT_STATUS_") {
		t.Errorf("a removed user is served after a second:\n%s", out.String())
	}
	text, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"logon", "logon refused", "connect", "connect refused", "open", "open refused", "rename", "delete", "session ended", "users"} {
		if !strings.Contains(string(text), `"level":"AUDIT","msg":"`+event+`"`) {
			t.Errorf("the audit log has no event %q:\n%s", event, text)
		}
	}
	if strings.Contains(string(text), "secret") {
		t.Error("the audit log has a password")
	}
}
