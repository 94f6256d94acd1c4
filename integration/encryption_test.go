package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/integration/internal/wiretap"
	"lwio/integration/samba"
	"lwio/internal/smb/smbauth"
	smb "lwio/internal/smb/smbclient"
	"lwio/internal/smb/smbwire"
)

// encryptions are the dialects of SMB 3 with their ciphers, and the options with which Samba
// uses them.
var encryptions = []struct {
	dialect uint16
	cipher  smbauth.Cipher
	samba   []string
}{
	{smbwire.Dialect300, smbauth.AES128CCM, []string{"--option=client min protocol=SMB3_00", "--option=client max protocol=SMB3_00"}},
	{smbwire.Dialect302, smbauth.AES128CCM, []string{"--option=client min protocol=SMB3_02", "--option=client max protocol=SMB3_02"}},
	{smbwire.Dialect311, smbauth.AES128CCM, []string{"--option=client min protocol=SMB3_11", "--option=client smb3 encryption algorithms=AES-128-CCM"}},
	{smbwire.Dialect311, smbauth.AES128GCM, []string{"--option=client min protocol=SMB3_11", "--option=client smb3 encryption algorithms=AES-128-GCM"}},
	{smbwire.Dialect311, smbauth.AES256CCM, []string{"--option=client min protocol=SMB3_11", "--option=client smb3 encryption algorithms=AES-256-CCM"}},
	{smbwire.Dialect311, smbauth.AES256GCM, []string{"--option=client min protocol=SMB3_11", "--option=client smb3 encryption algorithms=AES-256-GCM"}},
}

// TestClientEncryptsWithSamba runs our SMB client against Samba's smbd, in every dialect and with
// every cipher: with an smbd that requires encryption, and with one that leaves the choice to the
// client.
//
// Source: [MS-SMB2 3.2.4.1.8], [MS-SMB2 3.2.5.1.1]
func TestClientEncryptsWithSamba(t *testing.T) {
	for setting, require := range map[string]bool{"required": false, "default": true} {
		server, dir := startSamba(t, "  server smb encrypt = "+setting)
		for _, x := range encryptions {
			t.Run(fmt.Sprintf("%s/%#x/%v", setting, x.dialect, x.cipher), func(t *testing.T) {
				s := sambaSession(t, server, smb.Config{
					Dialects: []uint16{x.dialect}, Ciphers: []smbauth.Cipher{x.cipher}, RequireEncryption: require,
				})
				if got := s.Encryption(); got != x.cipher.String() {
					t.Errorf("encryption %q, want %v", got, x.cipher)
				}
				tree, err := s.TreeConnect(t.Context(), samba.Share)
				if err != nil {
					t.Fatal(err)
				}
				sambaData(t, tree, dir)
				sambaNames(t, tree, dir)
			})
		}
		if setting == "required" {
			_, err := smb.New(t.Context(), sambaDial(t, server), server.Host, smb.Config{
				User: samba.User, Password: samba.Password, Dialects: []uint16{smbwire.Dialect210},
			})
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("dialect 2.1, which has no encryption: %v", err)
			}
		}
	}
	server, _ := startSamba(t, "  server smb encrypt = off")
	_, err := smb.New(t.Context(), sambaDial(t, server), server.Host, smb.Config{
		User: samba.User, Password: samba.Password, RequireEncryption: true,
	})
	if !errors.Is(err, smb.ErrEncryption) {
		t.Errorf("smbd without encryption: %v", err)
	}
}

// TestSmbclientEncrypts stores, lists, fetches and removes files with smbclient, in every dialect
// and with every cipher. A wiretap between both sees neither names nor data, unless encryption is
// neither demanded nor required.
//
// Source: [MS-SMB2 3.3.5.2.1.1], [MS-SMB2 3.3.4.1.4]
func TestSmbclientEncrypts(t *testing.T) {
	need(t, "smbclient")
	const name, text = "clearly-a-name", "clearly-the-data"
	for _, setting := range []string{"offered", "required"} {
		dir, local := t.TempDir(), t.TempDir()
		s := serve(t, dir, "--encryption", setting)
		content := []byte(strings.Repeat(text, 200<<10))
		put, got := filepath.Join(local, "put"), filepath.Join(local, "got")
		if err := os.WriteFile(put, content, 0o600); err != nil {
			t.Fatal(err)
		}
		exchange := func(t *testing.T, want bool, options ...string) {
			t.Helper()
			tap := wiretap.Start(t, net.JoinHostPort(s.host, s.port))
			out, err := smbclient(t, s.host, tap.Port, "data", s.user, s.password,
				fmt.Sprintf("mkdir sub; cd sub; put \"%s\" %s; allinfo %s; ls; get %s \"%s\"; rm %s; cd ..; rmdir sub", put, name, name, name, got, name), options...)
			if err != nil || strings.Contains(out, "NT_STATUS_") || !strings.Contains(out, name) {
				t.Fatalf("%v\n%s", err, out)
			}
			if b, err := os.ReadFile(got); err != nil || !bytes.Equal(b, content) {
				t.Errorf("the fetched file differs: %v", err)
			}
			if encrypted := !tap.Has(name) && !tap.Has(text); encrypted != want {
				t.Errorf("encrypted: %t, want %t", encrypted, want)
			}
		}
		for _, x := range encryptions {
			t.Run(fmt.Sprintf("%s/%#x/%v", setting, x.dialect, x.cipher), func(t *testing.T) {
				exchange(t, true, append([]string{"--client-protection=encrypt"}, x.samba...)...)
			})
		}
		t.Run(setting+"/client that only signs", func(t *testing.T) { exchange(t, setting == "required") })
		t.Run(setting+"/dialect without encryption", func(t *testing.T) {
			out, err := smbclient(t, s.host, s.port, "data", s.user, s.password, "ls", "--option=client max protocol=SMB2_10")
			if refused := err != nil && strings.Contains(out, "NT_STATUS_ACCESS_DENIED"); refused != (setting == "required") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	s := serve(t, t.TempDir(), "--encryption", "off")
	if out, err := smbclient(t, s.host, s.port, "data", s.user, s.password, "ls", "--client-protection=encrypt"); err == nil {
		t.Errorf("a client that demands encryption works without:\n%s", out)
	}
}

// encryptedTorture are tests of smbtorture with encrypted messages.
var encryptedTorture = []tortureSuite{
	{name: "session", passes: []string{
		"encryption-aes-128-ccm", "encryption-aes-128-gcm", "encryption-aes-256-ccm", "encryption-aes-256-gcm",
	}},
	{name: "oplock", passes: []string{"batch1", "exclusive2"}},
	{name: "lease", passes: []string{"upgrade", "v2_epoch1"}},
	{name: "connect", fails: []tortureFailure{{noSession, "NT_STATUS_CONNECTION_DISCONNECTED", []string{"connect"}}}},
	{name: "rw", passes: []string{"rw1", "rw2"}},
	{name: "read", passes: []string{"eof"}},
	{name: "dir", passes: []string{"find"}},
	{
		name: "lock", passes: []string{"async", "cancel", "range"},
		fails: []tortureFailure{{noSession, "NT_STATUS_CONNECTION_DISCONNECTED", []string{"cancel-logoff"}}},
	},
	{name: "compound", passes: []string{"related2", "unrelated1", "create-write-close"}, fails: []tortureFailure{{
		"[MS-SMB2 3.3.5.2.1.1] ends a connection with a request of another session than the session that encrypted the message",
		"NT_STATUS_CONNECTION_DISCONNECTED", []string{"invalid2"},
	}}},
}

// Reasons for results of encryptedTorture.
const (
	noSession = "[MS-SMB2 3.3.5.2.1.1] ends a connection with a message encrypted by a session that is gone; smbd does so too"
)

// TestSmbtortureTestsHaveTheirResultsEncrypted runs Samba's tests against our server with encrypted
// messages.
//
// Source: [MS-SMB2 3.3.5.2.1.1]
func TestSmbtortureTestsHaveTheirResultsEncrypted(t *testing.T) {
	need(t, "smbtorture")
	s := serve(t, t.TempDir(), "--encryption", "required")
	for _, suite := range encryptedTorture {
		t.Run(suite.name, func(t *testing.T) {
			out := ""
			for _, test := range suite.tests() { // a test may end the connection
				out += s.torture(t, "encrypt", strings.TrimSuffix("smb2."+suite.name+"."+test, ".connect"))
			}
			suite.check(t, out)
		})
	}
}
