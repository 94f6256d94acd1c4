package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smbclient runs Debian's smbclient on a share, with signing required.
func smbclient(t *testing.T, host, port, share, user, password, commands string, options ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := append([]string{
		fmt.Sprintf("//%s/%s", host, share), "-p", port, "-U", user + "%" + password,
		"--client-protection=sign", "--option=client signing=required", "-c", commands,
	}, options...)
	cmd := exec.CommandContext(ctx, "smbclient", args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// protocols are the options of smbclient for each dialect.
var protocols = map[string][]string{
	"SMB3":    {"-m", "SMB3"},
	"SMB3_11": {"--option=client min protocol=SMB3_11"},
	"SMB3_02": {"--option=client max protocol=SMB3_02"},
	"SMB3_00": {"--option=client max protocol=SMB3_00"},
}

// TestSmbclient lists, copies, makes, renames and removes with smbclient.
//
// Source: [LWIO claim 4], [MS-SMB2 3.3.5]
func TestSmbclientTransfersFiles(t *testing.T) {
	need(t, "smbclient")
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			dir, local := t.TempDir(), t.TempDir()
			s := serve(t, dir)
			content := make([]byte, 3<<20+17)
			_, _ = rand.Read(content)
			put := filepath.Join(local, "put")
			if err := os.WriteFile(put, content, 0o600); err != nil {
				t.Fatal(err)
			}
			do := func(commands string) string {
				t.Helper()
				out, err := smbclient(t, s.host, s.port, "data", s.user, s.password, commands, options...)
				if err != nil || strings.Contains(out, "NT_STATUS_") {
					t.Fatalf("%s: %v\n%s", commands, err, out)
				}
				return out
			}
			do(fmt.Sprintf("mkdir sub; cd sub; put \"%s\" there; rename there here; allinfo here; ls", put))
			if out := do("ls sub\\*"); !strings.Contains(out, "here") || !strings.Contains(out, fmt.Sprint(len(content))) {
				t.Errorf("ls does not show the file:\n%s", out)
			}
			got, err := os.ReadFile(filepath.Join(dir, "sub", "here"))
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("the stored file differs: %v", err)
			}
			do(fmt.Sprintf("get sub\\here \"%s\"", filepath.Join(local, "got")))
			if got, err = os.ReadFile(filepath.Join(local, "got")); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("the fetched file differs: %v", err)
			}
			do("rm sub\\here; rmdir sub")
			if _, err := os.Stat(filepath.Join(dir, "sub")); !os.IsNotExist(err) {
				t.Errorf("the directory is still there: %v", err)
			}
		})
	}
}

// smbclient sees each refusal of the server.
func TestSmbclientSeesRefusals(t *testing.T) {
	need(t, "smbclient")
	s := serve(t, t.TempDir())
	for _, c := range []struct{ name, share, password, commands, want string }{
		{"wrong password", "data", "wrong", "ls", "NT_STATUS_LOGON_FAILURE"},
		{"unknown share", "nothing", s.password, "ls", "NT_STATUS_BAD_NETWORK_NAME"},
		{"missing file", "data", s.password, "get missing", "NT_STATUS_OBJECT_NAME_NOT_FOUND"},
		{"SMB 1 alone", "data", s.password, "ls", "NT_STATUS_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var options []string
			if c.name == "SMB 1 alone" {
				options = []string{"--option=client min protocol=NT1", "--option=client max protocol=NT1"}
			}
			out, err := smbclient(t, s.host, s.port, c.share, s.user, c.password, c.commands, options...)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %s:\n%s", err, c.want, out)
			}
		})
	}
	// The server still serves.
	if out, err := smbclient(t, s.host, s.port, "data", s.user, s.password, "ls"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// 1 GiB arrives unchanged both ways with smbclient and with lwio.
func TestGibibyteArrivesUnchanged(t *testing.T) {
	need(t, "smbclient")
	dir, local := t.TempDir(), t.TempDir()
	s := serve(t, dir)
	big := filepath.Join(local, "big")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.Reader, 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	commands := fmt.Sprintf("put \"%s\" big; get big \"%s\"", big, filepath.Join(local, "back"))
	if out, err := smbclient(t, s.host, s.port, "data", s.user, s.password, commands); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sameFile(t, big, filepath.Join(dir, "big"))
	sameFile(t, big, filepath.Join(local, "back"))
	remove(t, filepath.Join(local, "back"))
	mustLwio(t, "cp", "--require-rdma", s.url.String()+"/big", filepath.Join(local, "lwio"))
	sameFile(t, big, filepath.Join(local, "lwio"))
	remove(t, filepath.Join(local, "lwio"))
	remove(t, filepath.Join(dir, "big"))
	mustLwio(t, "cp", "--require-rdma", "--verify", big, s.url.String()+"/again")
	sameFile(t, big, filepath.Join(dir, "again"))
}

// remove removes a file that is no longer needed, to save disk space.
func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Error(err)
	}
}

// sameFile fails the test unless two files hold the same bytes.
func sameFile(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.Command("cmp", a, b).CombinedOutput(); err != nil {
		t.Fatalf("%s and %s differ: %v\n%s", a, b, err, out)
	}
}
