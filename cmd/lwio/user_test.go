package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/server"
)

// runWith runs the command with a standard input and an environment.
func runWith(t *testing.T, stdin string, env map[string]string, args ...string) result {
	t.Helper()
	var out, err lockedBuffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &err, env: func(name string) string { return env[name] }}
	code := a.run(t.Context(), args)
	return result{out.String(), err.String(), code}
}

// User adds, lists, changes and removes users. The file has hashes and no passwords.
func TestUserCommandsChangeTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	pw := writeSecret(t, "from-file\n", dir, "pw")
	for _, c := range []struct {
		name, stdin string
		env         map[string]string
		args        []string
		code        int
		out, err    string
	}{
		{"remove from no file", "", nil, []string{"rm", "alice"}, exitFailure, "", "no such file"},
		{"list of no file", "", nil, []string{"list"}, exitFailure, "", "no such file"},
		{"add by the standard input", "secret\nmore\n", nil, []string{"add", "alice"}, exitOK, "", ""},
		{"add by a flag", "", nil, []string{"add", "bob", "--password-file", pw}, exitOK, "", ""},
		{"add by a variable", "", map[string]string{"LWIO_PASSWORD": "from-env"}, []string{"add", "carol"}, exitOK, "", ""},
		{"add by a file of a variable", "", map[string]string{"LWIO_PASSWORD_FILE": pw, "LWIO_PASSWORD": "no"}, []string{"add", "dave"}, exitOK, "", ""},
		{"list", "", nil, []string{"list"}, exitOK, "alice\nbob\ncarol\ndave\n", ""},
		{"list in JSON", "", nil, []string{"list", "--json"}, exitOK, `["alice","bob","carol","dave"]` + "\n", ""},
		{"add twice", "x\n", nil, []string{"add", "ALICE"}, exitFailure, "", "exists already"},
		{"change of no user", "x\n", nil, []string{"passwd", "eve"}, exitFailure, "", "no such user"},
		{"empty password", "\n", nil, []string{"add", "eve"}, exitFailure, "", "the password is empty"},
		{"no password", "", nil, []string{"add", "eve"}, exitFailure, "", "the password is empty"},
		{"invalid name", "x\n", nil, []string{"add", "a:b"}, exitUsage, "", "user name"},
		{"change", "another\n", nil, []string{"passwd", "Alice"}, exitOK, "", ""},
		{"remove one that does not exist", "", nil, []string{"rm", "bob", "eve"}, exitFailure, "", "no such user"},
		{"remove", "", nil, []string{"rm", "bob", "DAVE"}, exitOK, "", ""},
		{"list at the end", "", nil, []string{"list"}, exitOK, "alice\ncarol\n", ""},
		{"no command", "", nil, []string{"remove", "x"}, exitUsage, "", `no command "remove"`},
		{"no name", "", nil, []string{"add"}, exitUsage, "", "one name"},
	} {
		r := runWith(t, c.stdin, c.env, append([]string{"user", "--file", file}, c.args...)...)
		if r.code != c.code || r.out != c.out || !strings.Contains(r.err, c.err) || c.err == "" && r.err != "" {
			t.Errorf("%s: exit status %d, output %q, error %q", c.name, r.code, r.out, r.err)
		}
	}
	want := fmt.Sprintf("alice:{NT}%x\ncarol:{NT}%x\n", server.NTHash("another"), server.NTHash("from-env"))
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("the file is\n%s, %v, want\n%s", got, err, want)
	}
	if r := run(t, exitUsage, "user", "list"); !strings.Contains(r.err, "--file") {
		t.Errorf("without a file: %s", r.err)
	}
}
