// Package supervise runs 'lwio serve' as a process on one address, kills it, and starts it again.
package supervise

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lwio/integration/internal/port"
)

// The user and the share of every server.
const (
	User  = "survivor"
	Share = "data"
)

// Time limits of a start and of an orderly end.
const (
	startTime = 2 * time.Minute
	stopTime  = time.Minute
)

// Config describes a server.
type Config struct {
	// Binary is the command lwio, Dir the directory that is served as Share.
	Binary, Dir string
	// Flags are further flags of serve.
	Flags []string
	// Prefix is a command that runs the server, such as nsenter with its arguments; it must exec.
	Prefix []string
	// Listen is the address, with a port other than 0; "" means a port of the loopback that is kept
	// for the server while it does not run.
	Listen string
	// Metrics has the server answer scrapes, which Metrics of the Server makes.
	Metrics bool
	// Log gets the standard error of the server; nil discards it.
	Log io.Writer
}

// Server is a server that runs, or runs again later. Its methods but URL are called by one goroutine at a
// time.
type Server struct {
	cfg      Config
	hold     *port.Hold
	scraped  *port.Hold // of the metrics, or nil
	state    string     // a directory with the password
	password string
	cmd      *exec.Cmd // nil while there is no process
	end      chan error
	mu       sync.Mutex // guards times
	times    Times
}

// Times are the moments of the last kill and the start after it. A moment that has not come is zero.
type Times struct {
	// Killed is before the signal, Dead after the end of the process, Begun before the start of the
	// next one, and Ready after its line for the share, from when on it listens.
	Killed, Dead, Begun, Ready time.Time
}

// New prepares a server and starts it. The caller ends it with Close.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, password: rand.Text()}
	var err error
	if s.state, err = os.MkdirTemp("", "lwio-supervise-"); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) prepare() (err error) {
	if s.cfg.Listen == "" {
		if s.hold, err = port.Take(); err != nil {
			return err
		}
		s.cfg.Listen = loopback(s.hold)
	}
	if s.cfg.Metrics {
		if s.scraped, err = port.Take(); err != nil {
			return err
		}
	}
	return os.WriteFile(s.passwordFile(), []byte(s.password+"\n"), 0o600)
}

func loopback(h *port.Hold) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(h.Number)) }

func (s *Server) passwordFile() string { return filepath.Join(s.state, "password") }

// Start starts the process and waits until it listens.
func (s *Server) Start() error {
	ready, err := s.begin()
	if err != nil {
		return err
	}
	select {
	case err = <-ready:
	case <-time.After(startTime):
		err = fmt.Errorf("the server does not listen within %v", startTime)
	}
	if err != nil {
		return errors.Join(err, s.Kill())
	}
	s.note(func(t *Times) { t.Ready = time.Now() })
	return nil
}

// RunUntilKilled starts the process with variables of the environment, and waits until the process has ended itself by
// SIGKILL, before it listens or later.
//
// Errors: the process ended in another way, or did not end within a time limit.
func (s *Server) RunUntilKilled(limit time.Duration, env ...string) error {
	ready, err := s.begin(env...)
	if err != nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-ready:
			if ready = nil; err == nil {
				s.note(func(t *Times) { t.Ready = time.Now() })
			}
		case err := <-s.end:
			now := time.Now()
			s.cmd = nil
			s.note(func(t *Times) { t.Killed, t.Dead, t.Ready = now, now, time.Time{} })
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
				return nil
			}
			return fmt.Errorf("the server ended by itself: %w", err)
		case <-timer.C:
			return fmt.Errorf("the server did not end within %v", limit)
		}
	}
}

// begin starts the process. The channel gets nil when the process listens, or an error.
func (s *Server) begin(env ...string) (ready chan error, err error) {
	args := append([]string{}, s.cfg.Prefix...)
	args = append(args, s.cfg.Binary, "serve", "--listen", s.cfg.Listen, "--user", User, "--password-file", s.passwordFile())
	if s.scraped != nil {
		args = append(args, "--metrics", loopback(s.scraped))
	}
	args = append(append(args, s.cfg.Flags...), Share+"="+s.cfg.Dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = s.cfg.Log
	cmd.WaitDelay = stopTime
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.note(func(t *Times) { t.Begun, t.Ready = time.Now(), time.Time{} })
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.cmd, s.end = cmd, make(chan error, 1)
	ready = make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "lwio://") {
			err = fmt.Errorf("the server printed %q", line)
		}
		ready <- err
		s.end <- cmd.Wait() // closes the pipe too
	}()
	return ready, nil
}

func (s *Server) note(change func(t *Times)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.times)
}

// Times returns the moments of the last kill and start. It may be called at any time.
func (s *Server) Times() Times {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times
}

// Kill ends the process by SIGKILL and waits for its end. It does nothing without a process.
func (s *Server) Kill() error {
	if s.cmd == nil {
		return nil
	}
	s.note(func(t *Times) { t.Killed, t.Ready = time.Now(), time.Time{} })
	err := s.cmd.Process.Kill()
	<-s.end
	s.cmd = nil
	s.note(func(t *Times) { t.Dead = time.Now() })
	return err
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Pid returns the number of the process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Dir returns the directory that is served.
func (s *Server) Dir() string { return s.cfg.Dir }

// HasFlag reports whether the server runs with a flag.
func (s *Server) HasFlag(flag string) bool { return slices.Contains(s.cfg.Flags, flag) }

// URL returns the URL of the share by a provider, "" for any.
func (s *Server) URL(provider string) string {
	u := url.URL{Scheme: "lwio", User: url.UserPassword(User, s.password), Host: s.cfg.Listen, Path: "/" + Share}
	if provider != "" {
		u.RawQuery = "provider=" + provider
	}
	return u.String()
}

// Stop ends the process in an orderly way, if there is one. Start may start it again.
//
// Errors: the exit status of the process, if it is not 0.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	err = errors.Join(err, <-s.end)
	s.cmd = nil
	return err
}

// Close ends the process in an orderly way, if there is one, and releases the port and the password.
//
// Errors: the exit status of the process, if it is not 0.
func (s *Server) Close() error {
	err := s.Stop()
	s.hold.Close()
	s.scraped.Close()
	return errors.Join(err, os.RemoveAll(s.state))
}

// Build builds the command of the checkout at root into dir and returns its name.
func Build(root, dir string) (string, error) {
	bin, err := filepath.Abs(filepath.Join(dir, "lwio"))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-C", root, "-o", bin, "./cmd/lwio").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}

// Descriptors lists the objects of the open descriptors of the process.
func (s *Server) Descriptors() ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/fd", s.Pid())
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // it may be closed by now
			names = append(names, target)
		}
	}
	return names, nil
}
