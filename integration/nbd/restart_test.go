package nbd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lwio/integration/internal/supervise"
)

// A server that is killed, or stopped and started again, is a pause of a copy: all of it arrives.
func TestRestartsArePausesForNbdcopy(t *testing.T) {
	need(t, "nbdcopy")
	for name, end := range map[string]func(*supervise.Server) error{
		"killed":  (*supervise.Server).Kill,
		"stopped": (*supervise.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			onTransports(t, func(t *testing.T, transport string) {
				state := filepath.Join(t.TempDir(), "state")
				if err := os.Mkdir(state, 0o700); err != nil {
					t.Fatal(err)
				}
				d := serve(t, transport, []string{"--timeout", patience.String()}, "--state", state)
				content := randomBytes(imageSize)
				slices.Reverse(content)
				local, back := filepath.Join(t.TempDir(), "local"), filepath.Join(t.TempDir(), "back")
				write(t, local, content)
				// Small requests make the copy last.
				d.during(t, end, "nbdcopy", "--connections=2", "--requests=4", "--request-size=4096", "--flush", local, d.uri)
				if !bytes.Equal(d.content(t), content) {
					t.Error("the image has other content than was written")
				}
				d.during(t, end, "nbdcopy", "--connections=2", "--requests=4", "--request-size=4096", d.uri, back)
				if !bytes.Equal(read(t, back), content) {
					t.Error("other content was read")
				}
			})
		})
	}
}

// during runs a program, which must succeed, and meanwhile ends the server and starts it again, at least once before the
// program has begun its work.
func (d *device) during(t *testing.T, end func(*supervise.Server) error, name string, args ...string) {
	t.Helper()
	restart := func(meanwhile func()) {
		if err := end(d.server); err != nil {
			t.Fatal(err)
		}
		meanwhile()
		if err := d.server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(name, args...)
	cmd.Stderr = testLog{t, name + ": "}
	done := make(chan error, 1)
	restart(func() {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { done <- cmd.Wait() }()
	})
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for restarts := 1; ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s after %d restarts: %v", name, restarts, err)
			}
			t.Logf("%d restarts", restarts)
			return
		case <-time.After(200 * time.Millisecond):
			if restarts < 6 {
				restart(func() {})
				restarts++
			}
		}
	}
}
