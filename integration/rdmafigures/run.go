package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"lwio/integration/internal/measure"
)

// patience is how long one run may take; what is that slow has missed every bar.
const patience = 20 * time.Second

// conductor starts the two processes of each run.
type conductor struct {
	cores [2]int
	scale float64
	procs int // GOMAXPROCS of all jobs, unless 0
}

// run is what one run of a job gave: the active side's outcome, then the passive's.
type run [2]outcome

// each is the time that one operation took.
func (r run) each() float64 { return float64(r[0].Took) / float64(r[0].Ops) }

// run carries a job out once.
func (c conductor) run(j job) (r run, err error) {
	j.Count = max(int(float64(j.Count)*c.scale), 1)
	if c.procs != 0 {
		j.Procs = c.procs
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	common, err := openCommon()
	if err != nil {
		return r, err
	}
	defer closeAll(common)
	passive, err := c.start(ctx, j, c.cores[1], common)
	if err != nil {
		return r, err
	}
	defer passive.stop()
	if j.Peer, err = passive.line(); err != nil {
		return r, passive.failed(err)
	}
	j.Active = true
	active, err := c.start(ctx, j, c.cores[0], common)
	if err != nil {
		return r, err
	}
	defer active.stop()
	err = errors.Join(active.outcome(&r[0]), passive.outcome(&r[1]))
	if ctx.Err() != nil {
		return r, fmt.Errorf("not done after %v", patience)
	}
	return r, err
}

// process is one side, in a process of its own.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
}

func (c conductor) start(ctx context.Context, j job, core int, common []*os.File) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, sideArgument, string(text))}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(j.Procs, 1)))
	p.cmd.Stderr = &p.stderr
	p.cmd.ExtraFiles = common
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, measure.StartOn(p.cmd, core)
}

// line is the next line that the process prints.
func (p *process) line() (string, error) { return p.out.ReadString('\n') }

// outcome waits for what the process measured.
func (p *process) outcome(o *outcome) error {
	line, err := p.line()
	if err == nil {
		err = json.Unmarshal([]byte(line), o)
	}
	if err != nil {
		return p.failed(err)
	}
	return nil
}

// failed ends the process and adds what it said to the error.
func (p *process) failed(err error) error {
	return errors.Join(err, p.stop(), errors.New(p.stderr.String()))
}

// stop ends the process, if it has not ended, and waits for it.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = p.cmd.Process.Kill()
	return p.cmd.Wait()
}

// commonSize is the size of the memory that both processes of a run map.
const commonSize = 64 << 20

// openCommon makes what both processes of a run inherit, for the floors: shared
// memory, and an eventfd for each to sleep on.
func openCommon() ([]*os.File, error) {
	fd, err := unix.MemfdCreate("rdmafigures", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	files := []*os.File{os.NewFile(uintptr(fd), "memory")}
	if err := files[0].Truncate(commonSize); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	for range 2 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("eventfd: %w", err), closeAll(files))
		}
		files = append(files, os.NewFile(uintptr(fd), "event"))
	}
	return files, nil
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
