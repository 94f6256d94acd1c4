package measure

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
)

// sideVariable has the job of a process that is one side of a run. A job can have a password, which
// other users of the host could read on a command line.
const sideVariable = "LWIO_MEASURE_SIDE"

// Side is the job of this process, in JSON, if Pair started it.
func Side() (job string, ok bool) { return os.LookupEnv(sideVariable) }

// Pair starts this program twice, for the two sides of a run. It may be used by several
// goroutines.
type Pair struct {
	Cores [2]int     // of the active side, of the passive one
	Procs int        // GOMAXPROCS of each
	Files []*os.File // inherited by both, from descriptor 3 on; owned by the caller
}

// Run does one run, which ends with ctx. The passive side starts first, with its job. The
// first line that it prints makes the job of the active side. Then each side prints its
// outcome; outcomes[0] is for the active side. All jobs and outcomes are JSON. Errors have
// the standard error of a failed side.
func (p Pair) Run(ctx context.Context, passive any, active func(line string) any, outcomes [2]any) error {
	second, err := p.start(ctx, passive, p.Cores[1])
	if err != nil {
		return err
	}
	defer second.stop()
	line, err := second.out.ReadString('\n')
	if err != nil {
		return second.failed(err)
	}
	first, err := p.start(ctx, active(strings.TrimSpace(line)), p.Cores[0])
	if err != nil {
		return err
	}
	defer first.stop()
	return errors.Join(first.outcome(outcomes[0]), second.outcome(outcomes[1]))
}

// Alone does a run of one side, on the first core, which ends with ctx. Job and outcome are JSON. An error has the
// standard error of the side.
func (p Pair) Alone(ctx context.Context, job, outcome any) error {
	one, err := p.start(ctx, job, p.Cores[0])
	if err != nil {
		return err
	}
	defer one.stop()
	return one.outcome(outcome)
}

// process is the process of one side.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
}

func (p Pair) start(ctx context.Context, job any, core int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	s := &process{cmd: exec.CommandContext(ctx, self)}
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", p.Procs), sideVariable+"="+string(text))
	s.cmd.Stderr = &s.stderr
	s.cmd.ExtraFiles = p.Files
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, StartOn(s.cmd, core)
}

// outcome waits for the outcome of the process.
func (s *process) outcome(to any) error {
	line, err := s.out.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), to)
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// failed ends the process and adds its standard error to the error.
func (s *process) failed(err error) error {
	return errors.Join(err, s.stop(), errors.New(s.stderr.String()))
}

// stop ends the process, if it has not ended, and waits for it.
func (s *process) stop() error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	_ = s.cmd.Process.Kill()
	return s.cmd.Wait()
}
