package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command of the unit of systemd has valid flags, and systemd accepts the unit where it is installed. The address
// of the socket unit is the one that the server listens on without a setting.
func TestUnitOfSystemd(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", "lwio.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\nExecStart=")
	command, _, _ := strings.Cut(rest, "\n")
	words := strings.Fields(command)
	if !ok || len(words) < 2 || words[1] != "serve" {
		t.Fatalf("the command is %q", words)
	}
	a := &app{env: os.Getenv}
	serve, _, err := a.root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.ParseFlags(words[2:]); err != nil {
		t.Error(err)
	}
	if state := serve.Flags().Lookup("state").Value.String(); !strings.HasPrefix(state, "/run/lwio/") {
		t.Errorf("the state is in %q", state)
	}
	socket, err := os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", "lwio.socket"))
	if err != nil {
		t.Fatal(err)
	}
	if listen := serve.Flags().Lookup("listen").DefValue; !strings.Contains(string(socket), "\nListenStream="+listen+"\n") {
		t.Errorf("the socket unit does not listen on %s", listen)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the rest needs systemd
	}
	unit := filepath.Join(t.TempDir(), "lwio.service")
	write(t, []byte(strings.Replace(string(text), words[0], os.Args[0], 1)), unit)
	if out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "lwio.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
