package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/integration/internal/port"
)

// realmName is the realm of the tests, and realmHost the name of the server in it for clients that
// refuse Kerberos with localhost.
const (
	realmName = "TEST.LWIO"
	realmHost = "files.test.lwio"
)

// realm is a KDC of MIT with a database of its own, on a port of the loopback. It uses no file of the
// system.
type realm struct {
	dir    string
	config string // krb5.conf
	keytab string // of cifs/localhost and cifs/realmHost
	env    []string
}

// startRealm makes a realm with the users alice and bob, whose password is "secret", and starts its KDC.
func startRealm(t *testing.T) *realm {
	t.Helper()
	kdb, kadmin, kdc := need(t, "kdb5_util"), need(t, "kadmin.local"), need(t, "krb5kdc")
	need(t, "kinit")
	dir := t.TempDir()
	r := &realm{dir: dir, config: filepath.Join(dir, "krb5.conf"), keytab: filepath.Join(dir, "keytab")}
	held, err := port.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Close)
	at := fmt.Sprintf("127.0.0.1:%d", held.Number)
	r.write(t, "krb5.conf", `[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
[domain_realm]
 localhost = %[1]s
 %[3]s = %[1]s
`, realmName, at, realmHost)
	r.write(t, "kdc.conf", `[kdcdefaults]
 kdc_listen = %[2]s
 kdc_tcp_listen = %[2]s
[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  acl_file = %[3]s/acl
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, realmName, at, dir)
	r.env = append(os.Environ(), "KRB5_CONFIG="+r.config, "KRB5_KDC_PROFILE="+filepath.Join(dir, "kdc.conf"), "KRB5CCNAME="+r.cache("alice"))
	r.run(t, "", kdb, "create", "-s", "-W", "-r", realmName, "-P", "master")
	for _, query := range []string{
		"addprinc -pw secret alice", "addprinc -pw secret bob", "addprinc -pw secret alice/admin",
		"addprinc -randkey cifs/localhost", "addprinc -randkey cifs/" + realmHost, "addprinc -randkey host/localhost",
	} {
		r.run(t, "", kadmin, "-r", realmName, "-q", query)
	}
	r.run(t, "", kadmin, "-r", realmName, "-q", "ktadd -k "+r.keytab+" cifs/localhost cifs/"+realmHost)
	cmd := exec.Command(kdc, "-n", "-r", realmName)
	cmd.Env = r.env
	cmd.Stderr = &testLog{t: t, prefix: "kdc: "}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			return r
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// write makes a file in the directory of the realm.
func (r *realm) write(t *testing.T, name, format string, args ...any) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cache is the credential cache of a user.
func (r *realm) cache(user string) string {
	return filepath.Join(r.dir, "cache-"+strings.ReplaceAll(user, "/", "-"))
}

// run runs a program of the realm, which must succeed.
func (r *realm) run(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	out, err := r.try(t, input, "alice", program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// try runs a program with the credential cache of a user.
func (r *realm) try(t *testing.T, input, user, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(r.env, "KRB5CCNAME="+r.cache(user))
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kinit gets a ticket for a user.
func (r *realm) kinit(t *testing.T, user string, args ...string) {
	t.Helper()
	r.run(t, "secret\n", "kinit", append(args, "-c", r.cache(user), user)...)
}
