package samba_test

import (
	"os/exec"
	"testing"

	"lwio/integration/samba"
	"lwio/internal/test/skip"
)

// smbd runs and admits its user.
func TestSambaAdmitsItsUser(t *testing.T) {
	s, err := samba.Start(t.TempDir())
	if err != nil {
		skip.Test(t, "a program is missing", err)
	}
	defer s.Stop()
	cmd := exec.Command("smbclient", "//127.0.0.1/"+samba.Share, "-p", s.Port, "-U", samba.User+"%"+samba.Password, "-c", "ls")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
