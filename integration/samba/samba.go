// Package samba runs Debian's smbd for tests and measurements: on loopback, with
// its state in a directory of its own, and one user.
package samba

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lwio/integration/internal/port"
)

// The only user of the server. Samba requires an account of the host; root always exists.
const (
	User     = "root"
	Password = "for-tests-only"
	Share    = "data"
)

// startTime bounds the start of smbd, and stopTime its end.
const (
	startTime = 2 * time.Minute
	stopTime  = 30 * time.Second
)

// scratch is the directory of the state. Its name is short because smbd has sockets there.
const scratch = "/tmp"

// Server is a running smbd.
type Server struct {
	// Host and Port are the address of the listener.
	Host, Port string
	// Pid is smbd's parent process; its children serve the connections.
	Pid   int
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has
	port  *port.Hold
	state string
}

const config = `[global]
  workgroup = LWIO
  server role = standalone server
  security = user
  passdb backend = tdbsam:%[1]s/passdb.tdb
  private dir = %[1]s
  lock directory = %[1]s
  state directory = %[1]s
  cache directory = %[1]s
  pid directory = %[1]s
  ncalrpc dir = %[1]s/ncalrpc
  log file = %[1]s/log
  interfaces = 127.0.0.1
  bind interfaces only = yes
  smb ports = %[2]s
  server signing = mandatory
  disable netbios = yes
  load printers = no
  printcap name = /dev/null
[%[3]s]
  path = %[4]s
  read only = no
  force user = root
[global]
`

// Start runs smbd with dir as its share, and further lines of the global section of its
// configuration. It needs root.
//
// Errors: exec.ErrNotFound (wrapped) if Samba is not installed.
func Start(dir string, global ...string) (*Server, error) {
	smbd, err := exec.LookPath("/usr/sbin/smbd")
	if err != nil {
		return nil, fmt.Errorf("samba: %w", err)
	}
	if os.Getuid() != 0 {
		return nil, errors.New("samba: smbd needs root")
	}
	state, err := os.MkdirTemp(scratch, "lwio-samba-")
	if err != nil {
		return nil, err
	}
	s := &Server{Host: "127.0.0.1", state: state}
	if err := s.start(smbd, dir, global); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(smbd, dir string, global []string) error {
	var err error
	if s.port, err = port.Take(); err != nil {
		return err
	}
	s.Port = strconv.Itoa(s.port.Number)
	conf := filepath.Join(s.state, "smb.conf")
	text := fmt.Sprintf(config, s.state, s.Port, Share, dir) + strings.Join(global, "\n") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	passwd := exec.Command("smbpasswd", "-c", conf, "-a", "-s", User)
	passwd.Stdin = strings.NewReader(Password + "\n" + Password + "\n")
	if out, err := passwd.CombinedOutput(); err != nil {
		return fmt.Errorf("samba: smbpasswd: %w: %s", err, out)
	}
	cmd := exec.Command(smbd, "--foreground", "--no-process-group", "-s", conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Stop ends the children of smbd by their group
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("samba: %w", err)
	}
	s.cmd, s.ended, s.Pid = cmd, make(chan struct{}), cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(s.ended)
	}()
	return s.wait()
}

// wait waits until smbd takes connections.
func (s *Server) wait() error {
	deadline := time.After(startTime)
	for {
		c, err := net.Dial("tcp", net.JoinHostPort(s.Host, s.Port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-s.ended:
		case <-deadline:
		}
		log, _ := os.ReadFile(filepath.Join(s.state, "log"))
		return fmt.Errorf("samba: smbd does not listen: %w\n%s", err, log)
	}
}

// Stop ends smbd with its children and removes its state. It may be called more than once.
func (s *Server) Stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
		<-s.ended
		timer.Stop()
		_ = syscall.Kill(-s.Pid, syscall.SIGKILL) // children outlive their parent, and write the log
	}
	s.port.Close()
	return s.removeState()
}

// removeState removes the directory of the state. A child of smbd that has a signal, but has not ended,
// can still create a file there.
func (s *Server) removeState() error {
	for end := time.Now().Add(stopTime); ; time.Sleep(10 * time.Millisecond) {
		if err := os.RemoveAll(s.state); err == nil || time.Now().After(end) {
			return err
		}
	}
}
