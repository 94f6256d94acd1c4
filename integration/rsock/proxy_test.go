package rsock

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildCommand builds the command and returns its path.
func buildCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lwio")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/lwio").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// proxy is a running 'lwio proxy'.
type proxy struct {
	at  string // its address, in the form scheme://address
	end func() // interrupts it and waits, once
	log bytes.Buffer
}

// startProxy runs a proxy in a process of its own, until end is called or the test ends.
func startProxy(t *testing.T, command string, flags ...string) *proxy {
	t.Helper()
	p := new(proxy)
	cmd := exec.Command(command, append([]string{"proxy", "--verbose"}, flags...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = &p.log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("proxy: %v\n%s", err, p.log.String())
		}
	})
	t.Cleanup(p.end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.end()
		t.Fatalf("the proxy printed nothing: %v\n%s", err, p.log.String())
	}
	p.at = strings.TrimSpace(line)
	return p
}

// connections returns how many connections the proxy logged with a transport on one side: "by"
// is the listening side, "over" the connecting one. Precondition: the proxy has ended.
func (p *proxy) connections(side, transport string) int {
	return strings.Count(p.log.String(), side+"="+transport+"\n") + strings.Count(p.log.String(), side+"="+transport+" ")
}
