package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kerberosServer starts a server with the keytab of a realm and the user alice.
func kerberosServer(t *testing.T, r *realm, dir string, flags ...string) *lwioServer {
	t.Helper()
	users := filepath.Join(r.dir, "users")
	if _, err := os.Stat(users); err != nil {
		addUser(t, users, "Alice")
	}
	return serve(t, dir, append(flags, "--keytab", r.keytab, "--realm", realmName, "--password-file", users)...)
}

// smbclient logs on with a ticket, in each dialect and with each cipher, and is refused without one.
//
// Source: [RFC 4120], [RFC 4121], [MS-SPNG 3.2.5.2], [MS-SMB2 3.3.5.5.3]
func TestSmbclientLogsOnByKerberos(t *testing.T) {
	smbclient := need(t, "smbclient")
	r := startRealm(t)
	r.kinit(t, "alice")
	r.kinit(t, "bob")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := kerberosServer(t, r, dir, "--require-kerberos")
	get := func(user string, args ...string) (string, error) {
		args = append([]string{"//" + realmHost + "/data", "-I", s.host, "-p", s.port, "-c", "ls; get file -"}, args...)
		return r.try(t, "", user, smbclient, args...)
	}
	for _, x := range encryptions {
		for _, protection := range []string{"sign", "encrypt"} {
			out, err := get("alice", append(x.samba, "--use-kerberos=required", "--client-protection="+protection)...)
			if err != nil || !strings.Contains(out, "content") {
				t.Errorf("%#x/%v/%s: %v\n%s", x.dialect, x.cipher, protection, err, out)
			}
		}
	}
	if out, err := get("bob", "--use-kerberos=required"); err == nil || !strings.Contains(out, "NT_STATUS_LOGON_FAILURE") {
		t.Errorf("a principal that is no user: %v\n%s", err, out)
	}
	if out, err := get("alice", "--use-kerberos=off", "-U", "alice%secret"); err == nil {
		t.Errorf("NTLM is accepted:\n%s", out)
	}
}

// Our client logs on with the credential cache, and with a password, to our server. Its RDMA connections
// take their key from the session.
//
// Source: [RFC 4120 §3.1], [RFC 4120 §3.3], [OP-46b]
func TestClientLogsOnByKerberos(t *testing.T) {
	r := startRealm(t)
	r.kinit(t, "alice")
	r.kinit(t, "bob")
	r.kinit(t, "alice/admin")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := kerberosServer(t, r, dir, "--require-kerberos")
	at := "localhost:" + s.port + "/data/file?auth=kerberos"
	plain := "localhost:" + s.port + "/data/file"
	for name, c := range map[string]struct{ user, url, want string }{
		"cache":                         {"alice", "lwio://" + at, ""},
		"cache of the named user":       {"alice", "lwio://alice@" + at, ""},
		"iwarp":                         {"alice", "lwio://" + at + "&provider=iwarp", ""},
		"shm":                           {"alice", "lwio://" + at + "&provider=shm", ""},
		"SMB alone":                     {"alice", "lwio://" + at + "&provider=smb", ""},
		"encryption":                    {"alice", "lwio://" + at + "&encryption=required", ""},
		"password":                      {"nobody", "lwio://alice:secret@" + at, ""},
		"wrong password":                {"nobody", "lwio://alice:Secret@" + at, "permission"},
		"no cache":                      {"nobody", "lwio://" + at, "no such file"},
		"cache of another user":         {"bob", "lwio://alice@" + at, "permission"},
		"principal that is no user":     {"bob", "lwio://" + at, "LOGON_FAILURE"},
		"principal with two components": {"alice/admin", "lwio://" + at, "LOGON_FAILURE"},
		"service that does not exist":   {"alice", "lwio://127.0.0.1:" + s.port + "/data/file?auth=kerberos", "KDC_ERR_S_PRINCIPAL_UNKNOWN"},
		"NTLM with the right password":  {"alice", "lwio://alice:secret@" + plain, "no NTLM"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := r.try(t, "", c.user, lwioBin, "cat", c.url)
			if c.want == "" && (err != nil || out != "content") || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, out)
			}
		})
	}
}

// A server without a keytab refuses a client that requires Kerberos. The client does not send NTLM.
//
// Source: [RFC 4178 §4.2.1]
func TestClientWithKerberosDoesNotFallBack(t *testing.T) {
	r := startRealm(t)
	r.kinit(t, "alice")
	s := serve(t, t.TempDir())
	out, err := r.try(t, "", "alice", lwioBin, "ls", "lwio://localhost:"+s.port+"/data?auth=kerberos")
	if err == nil || !strings.Contains(out, "the server offers no Kerberos") {
		t.Errorf("%v\n%s", err, out)
	}
}

// After a change of the keys, SIGHUP lets the server accept tickets of the new version.
func TestServerReloadsItsKeytab(t *testing.T) {
	r := startRealm(t)
	dir := t.TempDir()
	s := kerberosServer(t, r, dir)
	list := func() (string, error) {
		return r.try(t, "", "alice", lwioBin, "ls", "lwio://localhost:"+s.port+"/data?auth=kerberos")
	}
	r.kinit(t, "alice")
	if out, err := list(); err != nil {
		t.Fatalf("before: %v\n%s", err, out)
	}
	other := filepath.Join(r.dir, "other")
	r.run(t, "", need(t, "kadmin.local"), "-r", realmName, "-q", "ktadd -k "+other+" cifs/localhost cifs/"+realmHost)
	r.kinit(t, "alice")
	if out, err := list(); err == nil {
		t.Fatalf("the server accepts a key that it does not have:\n%s", out)
	}
	if err := os.Rename(other, r.keytab); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		out, err := list()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after: %v\n%s", err, out)
		}
	}
}
