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
	"strings"
	"time"

	"lwio/integration/internal/measure"
)

// patience is how long one run may take.
const patience = 60 * time.Second

// conductor starts the two processes of each run.
type conductor struct {
	cores [2]int
	scale float64
	dir   string // for Unix sockets
	count int    // of runs
}

// run is what one run of a job gave: the active side's outcome, then the passive's.
type run [2]outcome

// run carries a job out once.
func (c *conductor) run(j job) (r run, err error) {
	j.Count = max(int(float64(j.Count)*c.scale), 1)
	c.count++
	j.Path = fmt.Sprintf("%s/%d", c.dir, c.count)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	passive, err := start(ctx, j, c.cores[1])
	if err != nil {
		return r, err
	}
	defer passive.stop()
	addr, err := passive.out.ReadString('\n')
	if err != nil {
		return r, passive.failed(err)
	}
	j.Active, j.Peer = true, strings.TrimSpace(addr)
	active, err := start(ctx, j, c.cores[0])
	if err != nil {
		return r, err
	}
	defer active.stop()
	return r, errors.Join(active.outcome(&r[0]), passive.outcome(&r[1]))
}

// process is one side, in a process of its own.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
}

func start(ctx context.Context, j job, core int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, sideArgument, string(text))}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, measure.StartOn(p.cmd, core)
}

// outcome waits for what the process measured.
func (p *process) outcome(o *outcome) error {
	line, err := p.out.ReadString('\n')
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
