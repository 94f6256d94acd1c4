package samba_test

import (
	"os/exec"
	"testing"

	"lwio/integration/samba"
	"lwio/integration/skips"
)

// TestStart shows that smbd runs and lets its user in.
func TestStart(t *testing.T) {
	s, err := samba.Start(t.TempDir())
	if err != nil {
		skips.Skip(t, err)
	}
	defer s.Stop()
	cmd := exec.Command("smbclient", "//127.0.0.1/"+samba.Share, "-p", s.Port, "-U", samba.User+"%"+samba.Password, "-c", "ls")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
