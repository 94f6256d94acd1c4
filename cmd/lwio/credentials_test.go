package main

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lwio"
)

// Each source of a password is used in its order, and the credentials file names the user too.
func TestCredentialsComeFromTheFirstSource(t *testing.T) {
	dir := t.TempDir()
	one, two := writeSecret(t, "one\n", dir, "one"), writeSecret(t, "two\r\nmore\n", dir, "two")
	home := filepath.Join(dir, "home")
	writeSecret(t, "# servers\n\nlwio://alice:st%2Fored@db1:4450\nlwio://bob:other@db1\nlwio://carol:third@[::1]:9\n", home, ".config", "lwio", "credentials")
	xdg := filepath.Join(dir, "xdg")
	writeSecret(t, "lwio://xavier:x@db1\n", xdg, "lwio", "credentials")
	for _, c := range []struct {
		name, url, flag string
		env             map[string]string
		user, password  string
		err             string
	}{
		{"of the URL", "lwio://alice:url@db1/s", one, map[string]string{"LWIO_PASSWORD": "env", "HOME": home}, "", "", ""},
		{"of the flag", "lwio://alice@db1/s", one, map[string]string{"LWIO_PASSWORD_FILE": two, "LWIO_PASSWORD": "env", "HOME": home}, "", "one", ""},
		{"of the variable's file", "lwio://alice@db1/s", "", map[string]string{"LWIO_PASSWORD_FILE": two, "LWIO_PASSWORD": "env", "HOME": home}, "", "two", ""},
		{"of the variable", "lwio://alice@db1/s", "", map[string]string{"LWIO_PASSWORD": "env", "HOME": home}, "", "env", ""},
		{"of the credentials file", "lwio://alice@db1/s", "", map[string]string{"HOME": home}, "", "st/ored", ""},
		{"of another user", "lwio://bob@DB1/s", "", map[string]string{"HOME": home}, "", "other", ""},
		{"user and password", "lwio://db1/s", "", map[string]string{"HOME": home}, "alice", "st/ored", ""},
		{"user of the file, password of the variable", "lwio://db1/s", "", map[string]string{"HOME": home, "LWIO_PASSWORD": "env"}, "alice", "env", ""},
		{"of an IPv6 address", "lwio://[::1]:9/s", "", map[string]string{"HOME": home}, "carol", "third", ""},
		{"of the other directory", "lwio://db1/s", "", map[string]string{"HOME": home, "XDG_CONFIG_HOME": xdg}, "xavier", "x", ""},
		{"another port", "lwio://alice@db1:1/s", "", map[string]string{"HOME": home}, "", "", "no password for lwio://alice@db1:1/s"},
		{"another user", "lwio://eve@db1/s", "", map[string]string{"HOME": home}, "", "", "no password for lwio://eve@db1:4450/s"},
		{"no user", "lwio://db2/s", "", map[string]string{"HOME": home}, "", "", "no user in lwio://db2:4450/s"},
		{"no home", "lwio://alice@db1/s", "", nil, "", "", "no password for"},
		{"missing file", "lwio://alice@db1/s", "", map[string]string{"LWIO_PASSWORD_FILE": dir + "/missing"}, "", "", "no such file"},
	} {
		target, err := lwio.ParseURL(c.url)
		if err != nil {
			t.Fatal(err)
		}
		a := logon{stdin: strings.NewReader(""), env: func(name string) string { return c.env[name] }, passwordFile: c.flag}
		user, password, err := a.credentials(t.Context(), target)
		if user != c.user || password != c.password || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: user %q, password %q, error %v", c.name, user, password, err)
		}
	}
}

// A credentials file with a mistake, or that others may read, is refused without its content.
func TestCredentialsFileIsChecked(t *testing.T) {
	target, err := lwio.ParseURL("lwio://alice@db1/s")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"no password":       {"lwio://bob:x@a\nlwio://alice@db1\n", 0o600, "line 2: no user or no password"},
		"empty password":    {"lwio://alice:@db1\n", 0o600, "line 1: no user or no password"},
		"another scheme":    {"https://alice:secret@db1\n", 0o600, "line 1: not of the form"},
		"no URL":            {"alice:secret\n", 0o600, "line 1: not of the form"},
		"wrong encoding":    {"lwio://alice:secret%zz@db1\n", 0o600, "line 1: not of the form"},
		"others may read":   {"lwio://alice:secret@db1\n", 0o644, "chmod 600"},
		"group may read it": {"lwio://alice:secret@db1\n", 0o640, "chmod 600"},
	} {
		if runtime.GOOS == "windows" && c.mode != 0o600 {
			continue // the system has no such modes
		}
		home := t.TempDir()
		file := writeSecret(t, c.content, home, ".config", "lwio", "credentials")
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		a := logon{stdin: strings.NewReader(""), env: func(name string) string { return map[string]string{"HOME": home}[name] }}
		_, _, err := a.credentials(t.Context(), target)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Commands use the credentials file, and no message has the password.
func TestCommandsUseTheCredentialsFile(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, []byte("content"), s.dir, "f")
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	home := t.TempDir()
	writeSecret(t, "lwio://"+u.User.String()+"@"+u.Host+"\n", home, ".config", "lwio", "credentials")
	bare := "lwio://" + u.Host + u.Path
	for _, args := range [][]string{{"cat", bare + "/f"}, {"doctor", bare}, {"bench", "--runtime", "50ms", "--bs", "4", bare + "/f"}} {
		r := runWith(t, "", map[string]string{"HOME": home}, append(args, "-v")...)
		if r.code != exitOK || args[0] == "cat" && r.out != "content" {
			t.Errorf("%s: exit status %d, output %q, %s", args[0], r.code, r.out, r.err)
		}
		if strings.Contains(r.out+r.err, password) {
			t.Errorf("%s shows the password: %s%s", args[0], r.out, r.err)
		}
	}
	if strings.Contains(s.log.String(), password) {
		t.Errorf("the server logs the password: %s", s.log.String())
	}
}

// A URL at a wrong place of a command line is shown without its password.
func TestMistakesShowNoPassword(t *testing.T) {
	const typed = "lwio://alice:topsecret@db1:4450/data"
	for _, args := range [][]string{
		{typed}, {"user", typed}, {"user", "add", typed, "--file", "x"}, {"serve", typed}, {"serve", "--listen", typed, "."},
		{"ls", typed + "?x=y"}, {"ls", "lwio://alice:topsecret@db1:x/data"}, {"cp", typed}, {"bench", "--bs", typed},
		{"bench", "--timeout", typed}, {"proxy", "--listen", typed, "--to", typed}, {"--" + typed}, {"ls", "--" + typed},
		{"serve", "--metrics", typed, "."}, {"serve", "--provider", typed, "."}, {"serve", "--config", typed},
		{"serve", "--encryption", typed, "."}, {"serve", "--smb-memory", typed, "."}, {"serve", "--user", typed, "."},
	} {
		r := runWith(t, "", nil, args...)
		if r.code == exitOK || r.err == "" || strings.Contains(r.out+r.err, "topsecret") {
			t.Errorf("lwio %s: exit status %d, %s%s", strings.Join(args, " "), r.code, r.out, r.err)
		}
	}
}
