//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkReport runs serve --check --json.
func checkReport(t *testing.T, code int, args ...string) (r report) {
	t.Helper()
	out := run(t, code, append([]string{"serve", "--check", "--json"}, args...)...).out
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.OK != (code == exitOK) {
		t.Errorf("ok is %v, and the exit status is %d", r.OK, code)
	}
	return r
}

// --check accepts the configurations that serve takes, and does not make, change or listen at anything.
func TestCheckAcceptsAConfiguration(t *testing.T) {
	dir := t.TempDir()
	for _, share := range []string{"data", "private"} {
		write(t, nil, dir, share, "f")
	}
	writeSecret(t, usersWithSecret("alice"), dir, "users")
	settings := "listen = \"192.0.2.1:1\"\nstate = \"state\"\naudit = \"audit\"\n" // not an address of this host
	name := write(t, []byte(settings+twoShares), dir, "lwio.toml")
	if r := run(t, exitOK, "serve", "--check", "--config", name); r.out != "no mistake\n" {
		t.Errorf("%q", r.out)
	}
	if r := checkReport(t, exitOK, "--config", name); len(r.Remarks) != 0 {
		t.Errorf("%+v", r)
	}
	wantNames(t, dir, "data", "lwio.toml", "private", "users")
	run(t, exitOK, "serve", "--check", dir)
}

// --check reports all mistakes, with their places, and warnings.
func TestCheckReportsAllMistakes(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "data", "f")
	write(t, []byte(usersWithSecret("alice")), dir, "users") // others may read it
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	settings := "state = \"state\"\naudit = \"missing/audit\"\nkeytab = \"keytab\"\nprovider = [\"tape\"]\nbyte-burst = \"1m\"\n"
	name := write(t, []byte(settings+twoShares), dir, "lwio.toml")
	r := checkReport(t, exitFailure, "--config", name)
	for _, want := range []remark{
		{File: name, Line: 1, Key: "state", Message: "has mode 0755"},
		{File: name, Line: 2, Key: "audit", Message: "no such file"},
		{File: name, Line: 3, Key: "keytab", Message: "no such file"},
		{File: name, Line: 4, Key: "provider", Message: `there is no provider "tape"`},
		{File: name, Line: 5, Key: "byte-burst", Message: "it needs byte-rate"},
		{File: name, Line: 6, Key: "users", Message: "has mode 0644"},
		{File: name, Line: 12, Message: filepath.Join(dir, "private")},
	} {
		found := false
		for _, got := range r.Remarks {
			found = found || got.Severity == "error" && got.File == want.File && got.Line == want.Line && got.Key == want.Key && strings.Contains(got.Message, want.Message)
		}
		if !found {
			t.Errorf("no error %+v in %+v", want, r.Remarks)
		}
	}
	if text := run(t, exitFailure, "serve", "--check", "--config", name).out; !strings.Contains(text, "error: "+name+":5: byte-burst: it needs byte-rate\n") {
		t.Errorf("%s", text)
	}
}

// A warning is no mistake.
func TestCheckReportsWarnings(t *testing.T) {
	dir := t.TempDir()
	for _, share := range []string{"data", "private"} {
		write(t, nil, dir, share, "f")
	}
	writeSecret(t, usersWithSecret("bob"), dir, "users")
	name := write(t, []byte(twoShares), dir, "lwio.toml")
	r := checkReport(t, exitOK, "--config", name)
	if len(r.Remarks) != 2 || r.Remarks[0].Severity != "warning" || !strings.Contains(r.Remarks[0].Message, "user alice") {
		t.Errorf("%+v", r)
	}
	// Files of the server in a share are a mistake.
	r = checkReport(t, exitFailure, "--config", name, "--state", filepath.Join(dir, "data", "state"))
	if last := r.Remarks[len(r.Remarks)-1]; !strings.Contains(last.Message, "it is in the share data") {
		t.Errorf("%+v", r)
	}
	// A file with a mistake of its syntax has no further ones.
	write(t, []byte("users = \n"), dir, "lwio.toml")
	if r = checkReport(t, exitFailure, "--config", name); len(r.Remarks) != 1 || r.Remarks[0].Line != 1 {
		t.Errorf("%+v", r)
	}
}
