package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lwio/cmd/lwio/internal/sockets"
	"lwio/cmd/lwio/internal/systemd"
)

// predecessorFD is the descriptor of the socket to the predecessor.
const predecessorFD = 3

// notifyHandOvers sends the requests of a hand-over to c.
func notifyHandOvers(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR2) }

// handOverSocket is the socket between the two processes of a hand-over.
type handOverSocket struct{ *net.UnixConn }

// asHandOverSocket takes a descriptor over.
func asHandOverSocket(f *os.File) (handOverSocket, error) {
	nc, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return handOverSocket{}, err
	}
	u, ok := nc.(*net.UnixConn)
	if !ok {
		return handOverSocket{}, errors.Join(errors.New("not a Unix socket"), nc.Close())
	}
	return handOverSocket{u}, nil
}

// send sends a step, with descriptors.
func (h handOverSocket) send(s step, files ...*os.File) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(text) > maxStep {
		return fmt.Errorf("a message of %d bytes", len(text))
	}
	return systemd.Send(h.UnixConn, text, files)
}

// receive waits for a step until ctx ends, or a time has passed.
func (h handOverSocket) receive(ctx context.Context, most time.Duration, want string) (s step, files []*os.File, err error) {
	_ = h.SetReadDeadline(time.Now().Add(most))
	defer context.AfterFunc(ctx, func() { _ = h.SetReadDeadline(time.Unix(1, 0)) })()
	text, rights := make([]byte, maxStep), make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, oobn, _, _, err := h.ReadMsgUnix(text, rights)
	switch {
	case ctx.Err() != nil:
		return s, nil, context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), err == nil && n == 0:
		return s, nil, errOtherEnded
	case err != nil:
		return s, nil, err
	}
	if files, err = descriptors(rights[:oobn]); err != nil {
		return s, nil, err
	}
	if err = json.Unmarshal(text[:n], &s); err == nil {
		switch {
		case s.Step == stepFailed:
			err = errors.New(s.Error)
		case s.Step != want, len(s.Names) != len(files):
			err = fmt.Errorf("step %q with %d names and %d descriptors instead of %q", s.Step, len(s.Names), len(files), want)
		}
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
	}
	return s, files, err
}

// maxDescriptors is the most that the kernel passes in one message.
const maxDescriptors = 253

// descriptors returns the files of a control message.
func descriptors(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, e := unix.ParseUnixRights(&messages[i])
		err = errors.Join(err, e)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "inherited"))
		}
	}
	return files, err
}

// successor is a process that takes over from this one. It is no child of this process, but of the
// supervisor or of the first process, so that a supervisor learns of its end.
type successor struct {
	process *os.Process
	socket  handOverSocket
}

// startSuccessor starts the program anew, with the arguments of this process, and waits until it is ready. It
// finds the program by its path, so an upgraded program runs.
func startSuccessor(ctx context.Context, set *sockets.Set, printed []string) (*successor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "successor")
	socket, err := asHandOverSocket(os.NewFile(uintptr(pair[0]), "predecessor"))
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	next := &successor{socket: socket}
	next.process, err = launch(ctx, theirs)
	if err = errors.Join(err, theirs.Close()); err == nil {
		err = next.offer(ctx, set, printed)
	}
	if err != nil {
		next.abandon()
		return nil, err
	}
	return next, nil
}

// offer offers the sockets to the successor, and waits until it is ready.
func (s *successor) offer(ctx context.Context, set *sockets.Set, printed []string) error {
	offer := step{Step: stepOffer, Printed: printed}
	var files []*os.File
	for _, h := range set.Held() {
		offer.Names, files = append(offer.Names, h.Name), append(files, h.File)
	}
	if err := s.socket.send(offer, files...); err != nil {
		return err
	}
	_, _, err := s.socket.receive(ctx, readyTime, stepReady)
	return err
}

// launch starts the program as a launcher, which starts the successor with its end of the socket, reports its
// process id, and ends. A program that does none of that in time, or until ctx ends, is killed.
func launch(ctx context.Context, theirs *os.File) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(ctx, launchTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })()
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{theirs, w}
	cmd.Env = append(os.Environ(), fmt.Sprint(predecessorVariable, "=", launcherPrefix, os.Getpid()))
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, 20))
	if err = errors.Join(err, cmd.Wait(), context.Cause(ctx)); err != nil {
		return nil, fmt.Errorf("start of the new process: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return nil, fmt.Errorf("start of the new process: its id %q", text)
	}
	return os.FindProcess(pid)
}

// launcherPrefix begins the value of predecessorVariable for a launcher, and launcherFD is its pipe for the
// process id.
const (
	launcherPrefix = "launch-"
	launcherFD     = predecessorFD + 1
)

// launchFor is the work of a launcher for the process pid.
func launchFor(pid string) error {
	theirs, pipe := os.NewFile(predecessorFD, "predecessor"), os.NewFile(launcherFD, "pipe")
	unix.CloseOnExec(launcherFD)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{theirs}
	cmd.Env = append(os.Environ(), predecessorVariable+"="+pid)
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = fmt.Fprint(pipe, cmd.Process.Pid)
	return errors.Join(err, pipe.Close(), theirs.Close(), cmd.Process.Release())
}

// takeOver lets the successor serve. After an error the successor has ended.
func (s *successor) takeOver(ctx context.Context) error {
	err := s.socket.send(step{Step: stepGo})
	if err == nil {
		_, _, err = s.socket.receive(context.WithoutCancel(ctx), takeOverTime, stepServes)
	}
	if err != nil {
		s.abandon()
	}
	return err
}

// abandon ends the process, and waits for its end: then it does not have the state.
func (s *successor) abandon() {
	if s.process != nil {
		_ = s.process.Kill() // which fails if it has ended
		_ = s.socket.SetReadDeadline(time.Now().Add(readyTime))
		var err error
		for p := make([]byte, maxStep); err == nil; { // up to the end of the socket
			_, err = s.socket.Read(p)
		}
	}
	s.socket.Close()
}

// interrupt passes an interrupt of this process on.
func (s *successor) interrupt() error { return s.process.Signal(syscall.SIGTERM) }

func (s *successor) pid() int { return s.process.Pid }

// predecessor is the process from which this one takes over.
type predecessor struct {
	socket  handOverSocket
	printed []string
}

// inherit adds the sockets of the predecessor, or of the supervisor, to the set. It returns nil without a
// predecessor. In a launcher it starts the successor, and the error is errLaunched.
func inherit(env func(string) string, set *sockets.Set) (*predecessor, error) {
	of, launcher := strings.CutPrefix(env(predecessorVariable), launcherPrefix)
	switch {
	case !isPeer(of):
		all, err := systemd.Inherit(env, os.Getpid())
		for _, x := range all {
			set.Inherit(x.Name, x.File)
		}
		return nil, err
	case launcher:
		if err := launchFor(of); err != nil {
			return nil, err
		}
		return nil, errLaunched
	}
	unix.CloseOnExec(predecessorFD)
	socket, err := asHandOverSocket(os.NewFile(predecessorFD, "predecessor"))
	if err != nil {
		return nil, fmt.Errorf("hand-over: %w", err)
	}
	offer, files, err := socket.receive(context.Background(), readyTime, stepOffer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hand-over: %w", err), socket.Close())
	}
	for i, f := range files {
		set.Inherit(offer.Names[i], f)
	}
	return &predecessor{socket, offer.Printed}, nil
}

// isPeer reports whether predecessorFD is a socket that the process pid has made.
func isPeer(pid string) bool {
	if pid == "" {
		return false
	}
	cred, err := unix.GetsockoptUcred(predecessorFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && pid == fmt.Sprint(cred.Pid)
}

// await reports to the predecessor that this process is ready, and waits until the predecessor has closed
// its server.
func (p *predecessor) await(ctx context.Context) error {
	err := p.socket.send(step{Step: stepReady})
	if err == nil {
		_, _, err = p.socket.receive(ctx, readyTime+drainTime, stepGo)
	}
	if err != nil {
		return fmt.Errorf("hand-over: %w", err)
	}
	return nil
}

// leave reports to the predecessor that this process serves.
func (p *predecessor) leave() *departure {
	d := &departure{ended: make(chan struct{}), close: func() { p.socket.Close() }}
	err := p.socket.send(step{Step: stepServes})
	go func() {
		defer close(d.ended)
		if err == nil {
			_ = p.socket.SetReadDeadline(time.Time{})
			_, _ = p.socket.Read(make([]byte, 1)) // ends with the predecessor
		}
	}()
	return d
}

// end reports to the predecessor that this process has failed, unless it serves.
func (p *predecessor) end(err error) {
	if p == nil {
		return
	}
	if err == nil {
		err = errOtherEnded
	}
	_ = p.socket.send(step{Step: stepFailed, Error: err.Error()})
	p.socket.Close()
}
