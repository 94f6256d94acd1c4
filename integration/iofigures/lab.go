package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"lwio/integration/internal/measure"
)

// options say how to measure.
type options struct {
	rounds  int
	runtime time.Duration
	dir     string
	size    int64
}

// patience is how much longer than its runtime a run may take.
const patience = 2 * time.Minute

// lab is the file, and the processes that serve it, started when a row needs them.
type lab struct {
	options
	dir     string // holds share and program
	file    string // laid down in large pieces
	paged   string // laid down page by page; made when a row needs it
	lwio    string // the command
	self    string // this program
	client  int    // core of the client
	server  int    // core of the server
	servers map[string]*service
}

// newLab makes the file and builds the command. Close it.
func newLab(o options) (*lab, error) {
	cores, err := measure.Cores()
	if err != nil {
		return nil, err
	}
	if len(cores) < 2 {
		return nil, errors.New("two cores are needed")
	}
	l := &lab{options: o, client: cores[0], server: cores[1], servers: make(map[string]*service)}
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp(o.dir, "lwio-iofigures-"); err != nil {
		return nil, err
	}
	if err := l.furnish(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// furnish makes what lies in the lab's directory.
func (l *lab) furnish() (err error) {
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return err
	}
	l.lwio = filepath.Join(l.dir, "lwio")
	if out, err := exec.Command("go", "build", "-C", "..", "-o", l.lwio, "./cmd/lwio").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	share := filepath.Join(l.dir, "share")
	if err := os.Mkdir(share, 0o755); err != nil {
		return err
	}
	l.file, l.paged = filepath.Join(share, "file"), filepath.Join(share, "paged")
	return makeFile(l.file, l.size, mib)
}

// fileOf is the file that a job is about. The page cache keeps a file in pieces as large as
// those that it was written in, up to 2 MiB, and ext4 looks at all of a piece for each write
// into it.
func (l *lab) fileOf(j job) (string, error) {
	if !j.Paged {
		return l.file, nil
	}
	_, err := os.Stat(l.paged)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFile(l.paged, l.size, 4*kib)
	}
	return l.paged, err
}

// makeFile makes a file without holes, in pieces of so many bytes.
func makeFile(name string, size, piece int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := filled(make([]byte, piece))
	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name)) // nobody takes a part of it for the file
	}
	return nil
}

// String is what the figures were measured on.
func (l *lab) String() string {
	return fmt.Sprintf("%s, client on core %d, server on core %d, file of %d MiB, median of %d runs of %v, in turns",
		runtime.Version(), l.client, l.server, l.size>>20, l.rounds, l.runtime)
}

// close ends all servers and removes the file.
func (l *lab) close() error {
	var errs []error
	for _, s := range l.servers {
		errs = append(errs, s.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// service is a server process, and what it said of where it is.
type service struct {
	cmd *exec.Cmd
	at  string
}

// serve starts a server, unless there is one by that key; it prints one line when it
// is ready.
func (l *lab) serve(key string, core int, name string, args ...string) (*service, error) {
	if s := l.servers[key]; s != nil {
		return s, nil
	}
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := measure.StartOn(cmd, core); err != nil {
		return nil, err
	}
	s := &service{cmd: cmd}
	l.servers[key] = s
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	s.at = strings.TrimSpace(line)
	return s, nil
}

// drop ends the server of a key.
func (l *lab) drop(key string) error {
	s := l.servers[key]
	if s == nil {
		return nil
	}
	delete(l.servers, key)
	return s.stop()
}

// stop kills the process, which has nothing to lose, and waits for it.
func (s *service) stop() error {
	_ = s.cmd.Process.Kill()
	if err := s.cmd.Wait(); err != nil && s.cmd.ProcessState == nil {
		return err
	}
	return nil
}

// serverCore is where the server of a job runs.
func (l *lab) serverCore(j job) int {
	if j.Shared {
		return l.client
	}
	return l.server
}

// serverKey names the server that a job wants.
func (l *lab) serverKey(j job) string {
	return fmt.Sprintf("lwio serve --no-crc=%t, core %d", j.NoCRC, l.serverCore(j))
}

// lwioServer is 'lwio serve' as the job wants it.
func (l *lab) lwioServer(j job) (*service, error) {
	args := []string{"serve", "--listen", "127.0.0.1:0", fmt.Sprintf("--no-crc=%t", j.NoCRC)}
	return l.serve(l.serverKey(j), l.serverCore(j), l.lwio, append(args, "data="+filepath.Dir(l.file))...)
}

// run carries a job out once.
func (l *lab) run(ctx context.Context, j job) (o outcome, err error) {
	j.Runtime, j.Span = l.runtime, l.size
	if j.File, err = l.fileOf(j); err != nil {
		return outcome{}, err
	}
	if err := l.prepare(j); err != nil {
		return outcome{}, err
	}
	var s *service
	switch j.Way {
	case wayNBD:
		return l.runNBD(ctx, j)
	case wayTCP:
		s, err = l.serve("TCP peer, "+j.File, l.server, l.self, peerArgument, j.File)
	case wayShm, wayIWARP:
		s, err = l.lwioServer(j)
	}
	if err != nil {
		return outcome{}, err
	}
	if s != nil {
		j.At, j.Server = s.at, s.cmd.Process.Pid
	}
	return l.runClient(ctx, j)
}

// prepare brings the file into the page cache, and what was written to the disk.
func (l *lab) prepare(j job) error {
	f, err := os.Open(j.File)
	if err != nil {
		return err
	}
	if j.Write {
		err = f.Sync()
	}
	_, e := io.CopyBuffer(io.Discard, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return errors.Join(err, e, f.Close())
}

// runClient runs a job in a process of its own.
func (l *lab) runClient(ctx context.Context, j job) (o outcome, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return o, err
	}
	var out, stderr strings.Builder
	ctx, cancel := context.WithTimeout(ctx, j.Runtime+patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.self, clientArgument, string(text))
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err = measure.StartOn(cmd, l.client); err == nil {
		err = cmd.Wait()
	}
	if err == nil {
		err = json.Unmarshal([]byte(out.String()), &o)
	}
	if err != nil {
		return o, fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return o, nil
}
