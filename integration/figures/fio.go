package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lwio/integration/internal/measure"
	"lwio/integration/internal/port"
)

// fio is a job of fio with a server of NBD.
type fio struct {
	Via   string // viaTCP, viaUnix, or the transport of 'lwio nbd', which listens at a Unix socket
	RW    string
	Size  int
	Depth int
	Paged bool
}

// The ways to nbdkit's file plugin.
const (
	viaTCP  = "tcp"
	viaUnix = "unix"
)

// missingNBD returns the reason why nbdkit cannot be measured; nil if it can.
func missingNBD() error {
	for _, name := range []string{"nbdkit", "fio"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("install the packages nbdkit and fio: %w", err)
		}
	}
	engines, err := exec.Command("fio", "--enghelp").Output()
	if err != nil {
		return err
	}
	if !strings.Contains(string(engines), "nbd") {
		return errors.New("fio is without its nbd engine")
	}
	return nil
}

// nbdServer has a server of NBD and the processes that serve its requests.
type nbdServer struct {
	uri  string
	pids []int
}

// cpu is the CPU time of the processes until now.
func (s *nbdServer) cpu() (all time.Duration) {
	for _, pid := range s.pids {
		all += measure.ProcessCPU(pid)
	}
	return all
}

// server starts the server of the job if it does not run.
func (j fio) server(l *measure.Lab, file string) (*nbdServer, error) {
	switch j.Via {
	case viaTCP:
		s, err := nbdkitOverTCP(l, file)
		if err != nil {
			return nil, err
		}
		return &nbdServer{"nbd://" + s.At, []int{s.PID()}}, nil
	case viaUnix:
		sock := filepath.Join(l.Dir, filepath.Base(file)+".nbdkit")
		s, err := l.Serve("nbdkit, "+sock, l.Server, sock, "nbdkit", "--foreground", "--exit-with-parent", "--unix", sock, "file", file)
		if err != nil {
			return nil, err
		}
		return &nbdServer{"nbd+unix:///?socket=" + sock, []int{s.PID()}}, nil
	}
	share, err := server(l, binary(l), l.Server, false)
	if err != nil {
		return nil, err
	}
	sock := filepath.Join(l.Dir, filepath.Base(file)+"."+j.Via)
	s, err := l.Serve("lwio nbd, "+sock, l.Server, "", binary(l), "nbd", "--listen", "unix://"+sock,
		share.At+"/"+filepath.Base(file)+"?provider="+j.Via)
	if err != nil {
		return nil, err
	}
	return &nbdServer{s.At, []int{s.PID(), share.PID()}}, nil
}

// nbdkitOverTCP starts nbdkit's file plugin if it does not run.
func nbdkitOverTCP(l *measure.Lab, file string) (*measure.Service, error) {
	free, err := port.Take()
	if err != nil {
		return nil, err
	}
	defer free.Close() // nbdkit listens by then
	number := strconv.Itoa(free.Number)
	return l.Serve("nbdkit, "+file, l.Server, net.JoinHostPort("127.0.0.1", number),
		"nbdkit", "--foreground", "--exit-with-parent", "--ipaddr", "127.0.0.1", "--port", number, "file", file)
}

// Run does the job once. Like the other subjects, fio does not time each operation and does
// not keep a map of the blocks.
func (j fio) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	if err := missingNBD(); err != nil {
		return nil, err
	}
	name, err := makeFile(l, j.Paged)
	if err != nil {
		return nil, err
	}
	s, err := j.server(l, name)
	if err != nil {
		return nil, err
	}
	ramp := l.Runtime / 8
	m, before := measure.StartMeter(s.pids[0]), s.cpu()
	out, err := l.Command(ctx, m, nil, "fio", "--name=figures", "--ioengine=nbd", "--uri="+s.uri, "--rw="+j.RW,
		fmt.Sprintf("--bs=%d", j.Size), fmt.Sprintf("--iodepth=%d", j.Depth), fmt.Sprintf("--size=%d", l.Size),
		fmt.Sprintf("--runtime=%dms", l.Runtime.Milliseconds()), fmt.Sprintf("--ramp_time=%dms", ramp.Milliseconds()),
		"--time_based", "--norandommap", "--randrepeat=0", "--gtod_reduce=1", "--output-format=json")
	if err != nil {
		return nil, err
	}
	used := s.cpu() - before
	ops, seconds, client, err := readFio(out, j.RW == "randwrite")
	if err != nil {
		return nil, err
	}
	rate := ops / seconds
	return measure.Sample{
		measure.Rate: rate, measure.Throughput: rate * float64(j.Size), measure.ClientCPU: client / ops * 1e9,
		// An operation of the ramp took as much as a measured one.
		measure.ServerCPU: float64(used) * seconds / (seconds + ramp.Seconds()) / ops,
		measure.Others:    max(m.Others-(used-m.Server), 0).Seconds() / m.Took.Seconds(),
	}, nil
}

// errIdle is the error of a run without operations, on a busy machine.
var errIdle = errors.New("fio did nothing")

// readFio reads the JSON of fio, which other lines may precede. It returns the operations,
// their time and fio's CPU time, in seconds.
func readFio(text string, write bool) (ops, seconds, cpu float64, err error) {
	type side struct {
		Ops     float64 `json:"total_ios"`
		Runtime float64 `json:"runtime"` // milliseconds
	}
	var report struct {
		Jobs []struct {
			Error       int
			Read, Write side
			User        float64 `json:"usr_cpu"` // percent of job_runtime
			System      float64 `json:"sys_cpu"`
			Runtime     float64 `json:"job_runtime"` // milliseconds
		}
	}
	if err := json.Unmarshal([]byte(text[max(strings.IndexByte(text, '{'), 0):]), &report); err != nil {
		return 0, 0, 0, fmt.Errorf("fio: %w\n%s", err, text)
	}
	if len(report.Jobs) != 1 || report.Jobs[0].Error != 0 {
		return 0, 0, 0, fmt.Errorf("fio: %s", text)
	}
	j := report.Jobs[0]
	did := j.Read
	if write {
		did = j.Write
	}
	if did.Ops == 0 || did.Runtime == 0 {
		return 0, 0, 0, fmt.Errorf("%w: %s", errIdle, text)
	}
	return did.Ops, did.Runtime / 1e3, (j.User + j.System) / 100 * j.Runtime / 1e3, nil
}
