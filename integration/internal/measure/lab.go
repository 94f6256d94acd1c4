package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Plan says how to measure.
type Plan struct {
	Rounds  int           // runs of each subject
	Runtime time.Duration // of one run
	Parent  string        // directory on a disk file system, for scratch files
	Size    int64         // of the file, in bytes
}

// Patience is the time that a run may take in addition to its runtime.
const Patience = 2 * time.Minute

// Lab has the directory, the two cores and the servers of the measurements. A server is
// started when a job first needs it.
type Lab struct {
	Plan
	Dir    string // removed at Close
	Share  string // a directory in it, which servers serve
	Client int    // core of clients
	Server int    // core of servers
	// Silent drops the standard error of servers that are started.
	Silent   bool
	services map[string]*Service
	closers  []func() error
}

// OnClose makes Close call f.
func (l *Lab) OnClose(f func() error) { l.closers = append(l.closers, f) }

// NewLab makes the directory. The caller closes the lab.
func NewLab(p Plan) (*Lab, error) {
	cores, err := Cores()
	if err != nil {
		return nil, err
	}
	if len(cores) < 2 {
		return nil, fmt.Errorf("two cores are needed, and there is %d", len(cores))
	}
	dir, err := filepath.Abs(p.Parent)
	if err != nil {
		return nil, err
	}
	l := &Lab{Plan: p, Client: cores[0], Server: cores[1], services: make(map[string]*Service)}
	if l.Dir, err = os.MkdirTemp(dir, "lwio-figures-"); err != nil {
		return nil, err
	}
	l.Share = filepath.Join(l.Dir, "share")
	if err := os.Mkdir(l.Share, 0o755); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// String describes the conditions of the measurements.
func (l *Lab) String() string {
	return fmt.Sprintf("%s, client on core %d, server on core %d, median of %d runs of %v, in turns",
		runtime.Version(), l.Client, l.Server, l.Rounds, l.Runtime)
}

// Scale returns count operations per second of runtime, for jobs with a number of
// operations.
func (l *Lab) Scale(count int) int { return max(int(float64(count)*l.Runtime.Seconds()), 1) }

// Close ends all servers and removes the directory.
func (l *Lab) Close() error {
	var errs []error
	for _, s := range l.services {
		errs = append(errs, s.stop())
	}
	for _, f := range l.closers {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, os.RemoveAll(l.Dir))...)
}

// Service is a server process.
type Service struct {
	cmd *exec.Cmd
	// At is the first line that the server printed, or its given address.
	At string
}

// PID is the process id of the server.
func (s *Service) PID() int { return s.cmd.Process.Pid }

// Serve returns the server of a key, and starts it with command if there is none. A server
// without an address prints one line when it is ready; one with an address is ready when it
// accepts a connection.
func (l *Lab) Serve(key string, core int, address string, command ...string) (*Service, error) {
	if s := l.services[key]; s != nil {
		return s, nil
	}
	cmd := exec.Command(command[0], command[1:]...)
	if !l.Silent {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := StartOn(cmd, core); err != nil {
		return nil, err
	}
	s := &Service{cmd: cmd, At: address}
	l.services[key] = s
	if address != "" {
		return s, awaitListener(address)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	s.At = strings.TrimSpace(line)
	return s, nil
}

// Drop ends the server of a key.
func (l *Lab) Drop(key string) error {
	s := l.services[key]
	if s == nil {
		return nil
	}
	delete(l.services, key)
	return s.stop()
}

// stop kills the process, which has no state to save, and waits for it.
func (s *Service) stop() error {
	_ = s.cmd.Process.Kill()
	if err := s.cmd.Wait(); err != nil && s.cmd.ProcessState == nil {
		return err
	}
	return nil
}

// Command runs a client on its core, and returns its standard output; if out is not nil the
// output goes there instead. The meter, if there is one, is stopped when the client ends.
func (l *Lab) Command(ctx context.Context, m *Meter, out *os.File, command ...string) (string, error) {
	var stdout, stderr strings.Builder
	ctx, cancel := context.WithTimeout(ctx, l.Runtime+Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if out != nil {
		cmd.Stdout = out
	}
	err := StartOn(cmd, l.Client)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	if m != nil {
		m.Stop(cmd.ProcessState)
	}
	return stdout.String(), nil
}
