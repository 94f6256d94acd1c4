package lwio_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
)

// clientURL is the environment variable that makes the test binary a client of a share.
const clientURL = "LWIO_TEST_CLIENT_OF"

// TestClientProcess is the main function of a client process: it carries out the lines of its standard
// input, and answers each with a line.
func TestClientProcess(t *testing.T) {
	url := os.Getenv(clientURL)
	if url == "" {
		return // no test by itself
	}
	c, err := lwio.Dial(t.Context(), url, &lwio.Config{ReconnectTimeout: faultPatience, KeepAlive: shortKeepAlive})
	if err != nil {
		fmt.Println("answer", err)
		return
	}
	defer c.Close()
	var f *lwio.File
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch verb, rest, _ := strings.Cut(lines.Text(), " "); verb {
		case "open":
			f, err = c.OpenFile(t.Context(), rest, os.O_RDWR|os.O_CREATE, 0)
		case "lock":
			err = f.TryLock(t.Context(), lwio.Range{Len: 100}, lwio.LockExclusive)
		case "write":
			_, err = f.WriteAt([]byte(rest), 0)
		case "sync":
			err = f.Sync(t.Context())
		}
		fmt.Println("answer", answerOf(err))
	}
}

// shortKeepAlive is the least Config.KeepAlive.
const shortKeepAlive = time.Second

// answerOf names an error of the client process.
func answerOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, lwio.ErrUncertain):
		return "uncertain"
	case errors.Is(err, lwio.ErrStale):
		return "stale"
	case errors.Is(err, lwio.ErrLocked):
		return "locked"
	}
	return err.Error()
}

// clientProcess is a process with a client.
type clientProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// startClient starts a client process, which ends with the test.
func startClient(t *testing.T, url string) *clientProcess {
	t.Helper()
	p := &clientProcess{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestClientProcess$")}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), clientURL+"="+url), t.Output()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.in, p.out = in, bufio.NewScanner(out)
	return p
}

// ask sends a line.
func (p *clientProcess) ask(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// answer waits for the answer to a line, which is one of several.
func (p *clientProcess) answer(want ...string) {
	p.t.Helper()
	for p.out.Scan() {
		if a, ok := strings.CutPrefix(p.out.Text(), "answer "); ok {
			if !slices.Contains(want, a) {
				p.t.Errorf("the client process answered %q, want %q", a, want)
			}
			return
		}
	}
	p.t.Fatalf("the client process gave no answer: %v", p.out.Err())
}

// do sends a line and waits for its answer.
func (p *clientProcess) do(line, want string) {
	p.t.Helper()
	p.ask(line)
	p.answer(want)
}

// signal sends a signal to the process.
func (p *clientProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// stop stops the process, and waits until all of its threads have stopped.
func (p *clientProcess) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		return !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			_, state, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		})
	})
}

// kill kills the process and waits for its end.
func (p *clientProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // which reports the kill
}

// onProcess runs a test with a server, and with a client process over each transport.
func onProcess(t *testing.T, cfg lwiotest.Config, run func(t *testing.T, s *lwiotest.Server, query string)) {
	for _, provider := range []string{"shm", "iwarp", lwio.TransportSMB} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			s := lwiotest.NewServer(t, &cfg)
			run(t, s, "?provider="+provider)
		})
	}
}

// A program that was killed and starts anew under its name has the locks of its orphaned files at once;
// under another name, or as another program, it has to wait for them.
//
// Source: [MS-SMB2 3.3.5.9.13]
func TestProgramThatStartsAnewHasItsLocks(t *testing.T) {
	onProcess(t, lwiotest.Config{}, func(t *testing.T, s *lwiotest.Server, query string) {
		first := startClient(t, s.URL()+query+"&app=writer")
		first.do("open f", "done")
		first.do("lock", "done")
		first.do("write before", "done")
		first.kill()
		eventually(t, func() bool { return s.Server.Stats().Orphans == 1 })
		for _, app := range []string{"", "&app=reader"} {
			p := startClient(t, s.URL()+query+app)
			p.do("open f", "done")
			p.do("lock", "locked")
			p.kill()
		}
		second := startClient(t, s.URL()+query+"&app=writer")
		second.do("open f", "done")
		second.do("lock", "done")
		second.do("write after", "done")
		wantFile(t, filepath.Join(s.Dir, "f"), "aftere")
	})
}

// relay forwards connections to a server, until they are cut.
type relay struct {
	l    net.Listener
	addr string // of the server

	mu    sync.Mutex // guards conns
	conns []net.Conn
	ends  sync.WaitGroup
}

// startRelay starts a relay, which ends with the test.
func startRelay(t *testing.T, addr string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, addr: addr}
	r.ends.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.cut()
		r.ends.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		a, err := r.l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", r.addr)
		if err != nil {
			a.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, a, b)
		r.mu.Unlock()
		for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
			r.ends.Go(func() {
				_, _ = io.Copy(pair[0], pair[1]) // until it is cut
				pair[0].Close()
			})
		}
	}
}

// cut ends the present connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// through is the URL of a server by way of the relay.
func (r *relay) through(s *lwiotest.Server) string {
	return strings.Replace(s.URL(), s.Addr(), r.l.Addr().String(), 1)
}

// stopped is a time after which a client that was stopped for it has missed all its times.
const stopped = 3 * shortKeepAlive

// A client process that is stopped for longer than its keep-alive keeps its files and locks as long as its
// connections live, and goes on with them.
func TestStoppedProcessKeepsItsLocks(t *testing.T) {
	onProcess(t, lwiotest.Config{DurableTimeout: shortKeepAlive}, func(t *testing.T, s *lwiotest.Server, query string) {
		p := startClient(t, s.URL()+query)
		p.do("open f", "done")
		p.do("lock", "done")
		p.do("write before", "done")
		p.stop()
		time.Sleep(stopped)
		other := openRW(t, s.Client(nil))
		if err := other.TryLock(t.Context(), lwio.Range{Len: 1}, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
			t.Errorf("the lock of the stopped process is free: %v", err)
		}
		p.ask("write after")
		p.signal(syscall.SIGCONT)
		p.answer("done")
		p.do("sync", "done")
		wantFile(t, filepath.Join(s.Dir, "f"), "aftere")
	})
}

// A client process that is stopped while its connection is lost, and for longer than the server keeps its
// file, learns that the file is stale. None of its writes reaches the file, which another program has locked
// and changed meanwhile.
//
// Source: [OP-112]
func TestStoppedProcessIsFencedOff(t *testing.T) {
	onProcess(t, lwiotest.Config{DurableTimeout: shortKeepAlive}, func(t *testing.T, s *lwiotest.Server, query string) {
		r := startRelay(t, s.Addr())
		p := startClient(t, r.through(s)+query)
		p.do("open f", "done")
		p.do("lock", "done")
		p.do("write before", "done")
		p.stop()
		r.cut()
		eventually(t, func() bool { return s.Server.Stats().OrphansExpired == 1 })
		other := openRW(t, s.Client(nil))
		eventually(t, func() bool { // an open is counted before it is closed
			err := other.TryLock(t.Context(), lwio.Range{Len: 100}, lwio.LockExclusive)
			if err != nil && !errors.Is(err, lwio.ErrLocked) {
				t.Fatal(err)
			}
			return err == nil
		})
		if _, err := other.WriteAt([]byte("of the other program"), 0); err != nil {
			t.Error(err)
		}
		time.Sleep(stopped)
		p.ask("write late")
		p.signal(syscall.SIGCONT)
		p.answer("stale", "uncertain") // the write may be sent before the loss is noticed
		p.do("sync", "stale")
		p.do("open g", "done")
		p.do("write new", "done")
		wantFile(t, filepath.Join(s.Dir, "f"), "of the other program")
		wantFile(t, filepath.Join(s.Dir, "g"), "new")
	})
}

// wantFile checks the content of a file.
func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); string(got) != want || err != nil {
		t.Errorf("%s has %q, %v; want %q", name, got, err, want)
	}
}
