//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/server"
)

// configured is a server with a configuration file, whose files a test changes.
type configured struct {
	*testServer
	t                   *testing.T
	config, users, logs string
}

const twoShares = `users = "users"
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

// users are the lines of a file of users, all with the password "secret".
func usersWithSecret(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s:{NT}%x\n", name, server.NTHash("secret"))
	}
	return b.String()
}

// startConfigured serves the shares "data" and "private" for alice and bob.
func startConfigured(t *testing.T, flags ...string) *configured {
	t.Helper()
	return startConfiguredWith(t, twoShares, flags...)
}

// startConfiguredWith is startConfigured with a content of the configuration file.
func startConfiguredWith(t *testing.T, content string, flags ...string) *configured {
	t.Helper()
	dir := t.TempDir()
	for _, share := range []string{"data", "private"} {
		write(t, []byte("content"), dir, share, "f")
	}
	s := &configured{
		t: t, config: write(t, []byte(content), dir, "lwio.toml"),
		users: writeSecret(t, usersWithSecret("alice", "bob"), dir, "users"), logs: filepath.Join(dir, "audit"),
	}
	s.testServer = startServe(t, append(flags, "--config", s.config, "--audit", s.logs)...)
	return s
}

// as is the URL of a share for a user.
func (s *configured) as(user, share string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(user, "secret"), "/"+share
	return u.String()
}

// put replaces the content of a file, with its mode.
func (s *configured) put(file, content string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// hangUp sends SIGHUP and waits until the audit log has an event of the reload.
func (s *configured) hangUp(event string) {
	s.t.Helper()
	before := len(s.events(event))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the event "+event, func() bool { return len(s.events(event)) > before })
}

func (s *configured) eventually(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no %s\n%s", what, s.log.String())
		}
	}
}

// events returns the lines of the audit log with an event.
func (s *configured) events(event string) (lines []map[string]any) {
	s.t.Helper()
	text, err := os.ReadFile(s.logs)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["level"] != "AUDIT" {
			s.t.Fatalf("line %q: %v", line, err)
		}
		if m["msg"] == event {
			lines = append(lines, m)
		}
	}
	return lines
}

// The configuration gives each user its rights on each share.
func TestServeConfigHasRights(t *testing.T) {
	s := startConfigured(t)
	src := write(t, []byte("new"), t.TempDir(), "src")
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"cat", s.as("alice", "data") + "/f"}, exitOK, ""},
		{[]string{"cat", s.as("ALICE", "private") + "/f"}, exitOK, ""},
		{[]string{"cat", s.as("bob", "data") + "/f"}, exitOK, ""},
		{[]string{"cp", src, s.as("alice", "data") + "/g"}, exitOK, ""},
		{[]string{"cp", src, s.as("bob", "data") + "/h"}, exitFailure, "permission denied"},
		{[]string{"rm", s.as("bob", "data") + "/f"}, exitFailure, "permission denied"},
		{[]string{"mv", s.as("bob", "data") + "/f", s.as("bob", "data") + "/g"}, exitFailure, "permission denied"},
		{[]string{"mkdir", s.as("bob", "data") + "/d"}, exitFailure, "permission denied"},
		{[]string{"ls", s.as("bob", "private")}, exitFailure, "permission denied"},
		{[]string{"ls", s.as("eve", "data")}, exitFailure, "wrong user name or password"},
	} {
		if r := run(t, c.code, c.args...); !strings.Contains(r.err, c.err) {
			t.Errorf("%s: %s", c.args[0], r.err)
		}
	}
	if len(s.events("logon")) < 4 || len(s.events("logon refused")) != 1 || len(s.events("connect refused")) != 1 || len(s.events("open refused")) < 4 {
		t.Errorf("events: %v, %v, %v", s.events("logon refused"), s.events("connect refused"), s.events("open refused"))
	}
	if info, err := os.Stat(s.logs); err != nil || info.Mode() != 0o600 {
		t.Errorf("the audit log has mode %v, %v", info.Mode(), err)
	}
	if strings.Contains(s.log.String(), "AUDIT") {
		t.Errorf("the standard error has the audit log:\n%s", s.log.String())
	}
}

// The configuration has values of flags. The command line takes precedence, also in a reload.
func TestServeConfigHasValuesOfFlags(t *testing.T) {
	settings := "provider = [\"none\"]\nencryption = \"required\"\nlisten = \"192.0.2.1:1\"\ncredits = 8\n" // not an address of this host
	s := startConfiguredWith(t, settings+twoShares)
	c, err := lwio.Dial(t.Context(), s.as("alice", "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if tr := c.Transport(); tr.Name != lwio.TransportSMB {
		t.Errorf("transport %v, and the server has no provider", tr)
	}
	if cipher := s.events("logon")[0]["cipher"]; !strings.HasPrefix(fmt.Sprint(cipher), "AES-") {
		t.Errorf("cipher %v of a session that must be encrypted", cipher)
	}
	s.put(s.config, strings.NewReplacer("192.0.2.1:1", "192.0.2.1:2", "credits = 8", "credits = 9").Replace(settings)+twoShares)
	s.hangUp("rights")
	s.eventually("warning of the restart", func() bool { return strings.Contains(s.log.String(), "need a restart of the server") })
	if !strings.Contains(s.log.String(), "keys=[credits]") {
		t.Error(s.log.String())
	}
}

// A server of a configuration beyond loopback requires encryption, or insecure-network.
func TestServeConfigBeyondLoopback(t *testing.T) {
	for settings, want := range map[string]string{
		"encryption = \"offered\"\n": "needs encryption, or --insecure-network",
		"encryption = \"offered\"\ninsecure-network = true\nprovider = [\"nothing\"]\n": `there is no provider "nothing"`,
	} {
		name := write(t, []byte("listen = \"192.0.2.1:1\"\n"+settings+twoShares), t.TempDir(), "lwio.toml")
		if r := run(t, exitFailure, "serve", "--config", name); !strings.Contains(r.err, want) || !strings.Contains(r.err, name+":") {
			t.Errorf("%s: %s", settings, r.err)
		}
	}
}

// read-only of a share, and --read-only of all shares, refuse changes by users with the right to write.
func TestServeConfigReadOnly(t *testing.T) {
	for _, c := range []struct {
		config string
		flags  []string
		code   int
	}{
		{twoShares, nil, exitOK},
		{strings.Replace(twoShares, `path = "data"`, "path = \"data\"\nread-only = true", 1), nil, exitFailure},
		{twoShares, []string{"--read-only"}, exitFailure},
	} {
		s := startConfiguredWith(t, c.config, c.flags...)
		run(t, exitOK, "cat", s.as("alice", "data")+"/f")
		run(t, c.code, "rm", s.as("alice", "data")+"/f")
	}
}

// SIGHUP applies new rights to clients that are connected, and cuts a removed user off.
func TestHangupAppliesUsersAndRights(t *testing.T) {
	s := startConfigured(t)
	dial := func(user string) *lwio.File {
		t.Helper()
		c, err := lwio.Dial(t.Context(), s.as(user, "data"), &lwio.Config{ReconnectTimeout: time.Second, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	alice, bob := dial("alice"), dial("bob")
	reads := func(f *lwio.File) bool {
		_, err := f.ReadAt(make([]byte, 7), 0)
		return err == nil
	}
	// Bob's right to read goes. Alice is not disturbed.
	s.put(s.config, strings.Replace(twoShares, `read = ["*"]`, `read = ["carol"]`, 1))
	s.hangUp("rights")
	s.eventually("end of bob's right", func() bool { return !reads(bob) })
	run(t, exitFailure, "ls", s.as("bob", "data"))
	if !reads(alice) {
		t.Error("alice cannot read any more")
	}
	// A new user is known, and alice is removed, although the rights still name her.
	s.put(s.users, usersWithSecret("bob", "carol"))
	s.hangUp("users")
	s.eventually("end of alice's session", func() bool { return !reads(alice) })
	run(t, exitOK, "ls", s.as("carol", "data"))
	run(t, exitFailure, "ls", s.as("alice", "data"))
	u := s.events("users")
	if got := fmt.Sprint(u[len(u)-1]["added"], u[len(u)-1]["removed"], u[len(u)-1]["changed"]); got != "[carol] [alice] <nil>" {
		t.Errorf("the audit log has users %s", got)
	}
	// The last user can be removed.
	s.put(s.users, "# none\n")
	s.hangUp("users")
	run(t, exitFailure, "ls", s.as("carol", "data"))
}

// A file with a mistake changes nothing, and does not keep the other file from taking effect.
func TestHangupWithMistakes(t *testing.T) {
	s := startConfigured(t)
	s.put(s.config, strings.Replace(twoShares, "write", "wirte", 1))
	s.put(s.users, usersWithSecret("alice"))
	s.hangUp("users")
	if !strings.Contains(s.log.String(), s.config+`:6: unknown key \"share.wirte\"`) {
		t.Errorf("the log has no mistake:\n%s", s.log.String())
	}
	run(t, exitFailure, "ls", s.as("bob", "data"))
	run(t, exitOK, "rm", s.as("alice", "data")+"/f") // the rights are the old ones
	s.put(s.users, "bob:\n")
	s.put(s.config, strings.Replace(twoShares, `"private"`, `"other"`, 1))
	s.hangUp("rights")
	s.eventually("message about the users", func() bool { return strings.Contains(s.log.String(), "the users are unchanged") })
	s.eventually("message about the shares", func() bool { return strings.Contains(s.log.String(), "no user may use it") })
	run(t, exitOK, "ls", s.as("alice", "data"))
	run(t, exitFailure, "ls", s.as("alice", "private")) // no longer in the configuration
	run(t, exitFailure, "ls", s.as("alice", "other"))   // not served before a restart
}

// SIGHUP opens the audit log again, so it can be renamed. A log that cannot be opened stays in use.
func TestHangupReopensTheAuditLog(t *testing.T) {
	s := startConfigured(t)
	run(t, exitOK, "ls", s.as("alice", "data"))
	old := s.logs + ".1"
	if err := os.Rename(s.logs, old); err != nil {
		t.Fatal(err)
	}
	run(t, exitOK, "ls", s.as("alice", "data")) // still in the renamed file
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.eventually("new file", func() bool { _, err := os.Stat(s.logs); return err == nil })
	s.eventually("reload", func() bool { return len(s.events("users")) > 0 })
	run(t, exitOK, "ls", s.as("alice", "data"))
	if n := len(s.events("logon")); n != 1 {
		t.Errorf("%d logons in the new file", n)
	}
	s.logs = old
	if n := len(s.events("logon")); n != 2 {
		t.Errorf("%d logons in the old file", n)
	}
}

// A reload with the files of a server without a configuration.
func TestHangupReadsThePasswordFile(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "data", "f")
	users := writeSecret(t, "alice:secret\n", dir, "users")
	s := &configured{t: t, users: users, logs: filepath.Join(dir, "audit")}
	s.testServer = startServe(t, "--password-file", users, "--audit", s.logs, "data="+filepath.Join(dir, "data"))
	if !strings.Contains(s.log.String(), "plain passwords") {
		t.Errorf("no warning of plain passwords: %s", s.log.String())
	}
	run(t, exitOK, "ls", s.as("alice", "data"))
	if r := runWith(t, "secret\n", nil, "user", "--file", users, "add", "bob"); r.code != exitOK {
		t.Fatal(r.err)
	}
	s.hangUp("users")
	run(t, exitOK, "ls", s.as("bob", "data"))
	run(t, exitOK, "user", "--file", users, "rm", "alice")
	s.hangUp("users")
	run(t, exitFailure, "ls", s.as("alice", "data"))
}

// Serve refuses combinations that have no meaning, and names each mistake of the file.
func TestServeConfigRefusesMistakes(t *testing.T) {
	dir := t.TempDir()
	config := write(t, []byte(twoShares), dir, "lwio.toml")
	r := run(t, exitUsage, "serve", "--config", config, dir)
	if !strings.Contains(r.err, "takes directories and users from its file") {
		t.Error(r.err)
	}
	run(t, exitUsage, "serve", "--config", config, "--user", "alice")
	run(t, exitUsage, "serve")
	if r := run(t, exitFailure, "serve", "--config", config); !strings.Contains(r.err, fs.ErrNotExist.Error()[:4]) && !strings.Contains(r.err, "no such file") {
		t.Errorf("without a file of users: %s", r.err)
	}
	writeSecret(t, "# none\n", dir, "users")
	if r := run(t, exitFailure, "serve", "--config", config); !strings.Contains(r.err, "no user in it") {
		t.Errorf("without users: %s", r.err)
	}
	writeSecret(t, usersWithSecret("alice"), dir, "users")
	if r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "--config", config); !strings.Contains(r.err, filepath.Join(dir, "data")) {
		t.Errorf("without a directory: %s", r.err)
	}
	write(t, []byte("users = \"users\"\ncolor = 1\n[[share]]\nsize = 2\n"), dir, "lwio.toml")
	r = run(t, exitFailure, "serve", "--config", config)
	if want := fmt.Sprintf("lwio: %s:2: unknown key \"color\"\nlwio: %s:4: unknown key \"share.size\"\n", config, config); r.err != want {
		t.Errorf("mistakes are\n%s, want\n%s", r.err, want)
	}
}

// A reload does not take a file of users in a directory of a share, as the start does not: the clients of the share could
// write the users.
func TestReloadRefusesUsersInAShare(t *testing.T) {
	s := startConfigured(t)
	writeSecret(t, usersWithSecret("alice", "bob", "eve"), filepath.Join(filepath.Dir(s.config), "data"), "users")
	s.put(s.config, strings.Replace(twoShares, `users = "users"`, `users = "data/users"`, 1))
	s.hangUp("users")
	if !strings.Contains(s.log.String(), "it is in the share data") {
		t.Errorf("no error in the log:\n%s", s.log.String())
	}
	run(t, exitFailure, "ls", s.as("eve", "data"))
	run(t, exitOK, "ls", s.as("bob", "data"))
}

// SIGHUP changes the settings that can change, and names the others. Flags of the command line stay in effect.
func TestHangupChangesSettings(t *testing.T) {
	s := startConfiguredWith(t, "audit = \"not used\"\n"+twoShares)
	if s.put(s.config, "read-only = true\nverbose = true\naudit = \"not used either\"\ncredits = 16\nmax-credits = 64\n"+twoShares); strings.Contains(s.log.String(), "level=DEBUG") {
		t.Error("the log has details before verbose")
	}
	s.hangUp("rights")
	run(t, exitFailure, "rm", s.as("alice", "data")+"/f")
	run(t, exitOK, "cat", s.as("alice", "data")+"/f")
	s.eventually("details in the log", func() bool { return strings.Contains(s.log.String(), "level=DEBUG") })
	s.eventually("the keys that need a restart", func() bool { return strings.Contains(s.log.String(), `keys="[credits max-credits]"`) })
	// The old settings stay while the file has a mistake.
	for _, mistake := range []string{"credits = 2000\n", "byte-burst = \"1m\"\n"} {
		before := strings.Count(s.log.String(), "settings and rights are unchanged")
		s.put(s.config, mistake+twoShares)
		s.hangUp("users")
		s.eventually("the mistake", func() bool { return strings.Count(s.log.String(), "settings and rights are unchanged") > before })
		run(t, exitFailure, "rm", s.as("alice", "data")+"/f")
	}
	if !strings.Contains(s.log.String(), s.config+":1: byte-burst: it needs byte-rate") {
		t.Errorf("the log does not name the mistake:\n%s", s.log.String())
	}
	s.put(s.config, twoShares)
	s.hangUp("rights")
	run(t, exitOK, "rm", s.as("alice", "data")+"/f")
}

// SIGHUP moves the audit log to another file. A file that cannot be made leaves everything as it was.
func TestHangupMovesTheAuditLog(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "data", "f")
	write(t, nil, dir, "private", "f")
	s := &configured{
		t: t, config: write(t, []byte("audit = \"one\"\n"+twoShares), dir, "lwio.toml"),
		users: writeSecret(t, usersWithSecret("alice"), dir, "users"), logs: filepath.Join(dir, "one"),
	}
	s.testServer = startServe(t, "--config", s.config)
	s.put(s.config, "audit = \"missing/two\"\nread-only = true\n"+twoShares)
	s.hangUp("users")
	s.eventually("the error", func() bool { return strings.Contains(s.log.String(), "settings and rights are unchanged") })
	run(t, exitOK, "rm", s.as("alice", "data")+"/f")
	s.put(s.config, "audit = \"two\"\n"+twoShares)
	s.logs = filepath.Join(dir, "two")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.eventually("the new file", func() bool { _, err := os.Stat(s.logs); return err == nil })
	s.eventually("the reload", func() bool { return len(s.events("users")) > 0 })
	run(t, exitOK, "ls", s.as("alice", "data"))
	if n := len(s.events("logon")); n != 1 {
		t.Errorf("%d logons in the new file", n)
	}
}
