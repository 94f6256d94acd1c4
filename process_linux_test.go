package lwio_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lwio"
	"lwio/lwiotest"
)

// clientURL is the environment variable that makes the test binary a client of a share.
const clientURL = "LWIO_TEST_CLIENT_OF"

// TestClientProcess is the main function of a client process: it does what the lines of its standard
// input say, and answers each with a line.
func TestClientProcess(t *testing.T) {
	url := os.Getenv(clientURL)
	if url == "" {
		return // no test by itself
	}
	c, err := lwio.Dial(t.Context(), url, &lwio.Config{ReconnectTimeout: faultPatience})
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

// answerOf names an error of the client process.
func answerOf(err error) string {
	for name, kind := range map[string]error{"stale": lwio.ErrStale, "locked": lwio.ErrLocked, "closed": fs.ErrClosed} {
		if errors.Is(err, kind) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "done"
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

// answer waits for the answer to a line.
func (p *clientProcess) answer(want string) {
	p.t.Helper()
	for p.out.Scan() {
		if a, ok := strings.CutPrefix(p.out.Text(), "answer "); ok {
			if a != want {
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

// kill kills the process and waits for its end.
func (p *clientProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // which reports the kill
}

// onProcess runs a test with a server, and with a client process over each transport.
func onProcess(t *testing.T, cfg lwiotest.Config, run func(t *testing.T, s *lwiotest.Server, query string)) {
	for _, provider := range []string{"shm", "iwarp", lwio.TransportSMB} {
		t.Run(provider, func(t *testing.T) {
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

// wantFile checks the content of a file.
func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); string(got) != want || err != nil {
		t.Errorf("%s has %q, %v; want %q", name, got, err, want)
	}
}
