package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"lwio/integration/internal/port"
)

// Addresses inside the emulator's network.
const (
	// Addr is the guest.
	Addr = "10.0.2.15"
	// Host is the address of the host's 127.0.0.1 in the guest.
	Host = "10.0.2.2"
)

// Files is the directory of the guest with the programs agent and lwio.
const Files = "/guest/files"

// bootTime bounds the start of the guest. On an idle machine the start takes some 5 s.
const bootTime = 5 * time.Minute

// Guest is a running guest. Safe for concurrent use.
type Guest struct {
	run      *exec.Cmd
	listener *net.TCPListener
	agents   chan *net.TCPConn // each ready for one command
	ended    chan struct{}
	err      error // the cause, set before ended is closed
	scratch  string
	ports    map[int]*port.Hold // on the host, by the port in the guest
}

// ErrUnavailable reports that no guest can run on this machine.
var ErrUnavailable = errors.New("no guest")

// Available returns nil, or the reason why no guest can run here.
//
// Errors: ErrUnavailable (wrapped).
func Available() error {
	cache := os.Getenv("LWIO_GUEST_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		cache = filepath.Join(dir, "lwio-guest")
	}
	if _, err := os.Stat(filepath.Join(cache, "stamp")); err != nil {
		return fmt.Errorf("%w: run integration/guest/setup first: %w", ErrUnavailable, err)
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// scriptPath is the path of a script of this folder, for a test in the folder.
func scriptPath(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	return path, err
}

// Start boots a guest. HostPort has the host's addresses of the given TCP ports of the
// guest. Its messages go to log. The caller stops it.
func Start(ctx context.Context, log io.Writer, ports ...int) (*Guest, error) {
	g := &Guest{agents: make(chan *net.TCPConn), ended: make(chan struct{}), ports: map[int]*port.Hold{}}
	if err := g.start(ctx, log, ports); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

func (g *Guest) start(ctx context.Context, log io.Writer, ports []int) (err error) {
	if g.scratch, err = os.MkdirTemp("", "lwio-guest-"); err != nil {
		return err
	}
	files := filepath.Join(g.scratch, "files")
	for _, program := range []struct{ name, module, path string }{
		{"agent", ".", "./agent"}, {"lwio", "../..", "./cmd/lwio"},
	} {
		build := exec.CommandContext(ctx, "go", "build", "-C", program.module, "-ldflags", "-s -w", "-o", filepath.Join(files, program.name), program.path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("guest: build %s: %w: %s", program.name, err, out)
		}
	}
	if g.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return err
	}
	script, err := scriptPath("run")
	if err != nil {
		return err
	}
	args := []string{"-t", "1800", "-d", files}
	for _, p := range ports {
		if g.ports[p], err = port.Take(); err != nil {
			return err
		}
		args = append(args, "-p", fmt.Sprintf("%d:%d", g.ports[p].Number, p))
	}
	args = append(args, fmt.Sprintf("./agent serve %s:%d", Host, g.listener.Addr().(*net.TCPAddr).Port))
	g.run = exec.Command(script, args...)
	g.run.Stdout, g.run.Stderr = log, log
	g.run.WaitDelay = 10 * time.Second
	if err := g.run.Start(); err != nil {
		g.run = nil
		return err
	}
	go func() {
		g.err = errors.Join(errors.New("guest: it ended"), g.run.Wait())
		close(g.ended)
	}()
	go g.acceptAll()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	_, err = g.Run(ctx, "true")
	return err
}

// acceptAll takes the agents' connections until the listener is closed.
func (g *Guest) acceptAll() {
	for {
		c, err := g.listener.AcceptTCP()
		if err != nil {
			return
		}
		select {
		case g.agents <- c:
		case <-g.ended:
			c.Close()
		}
	}
}

// HostPort is the host's address of a port of the guest.
func (g *Guest) HostPort(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(g.ports[port].Number))
}

// Stop ends the guest. The guest also ends if this process dies. A second Stop does
// nothing.
func (g *Guest) Stop() error {
	if g.listener != nil {
		g.listener.Close()
	}
	if g.run != nil {
		_ = g.run.Process.Signal(syscall.SIGTERM)
		<-g.ended
	}
	for _, p := range g.ports {
		p.Close()
	}
	return os.RemoveAll(g.scratch)
}
