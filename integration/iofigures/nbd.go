package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"lwio/integration/internal/measure"
	"lwio/integration/internal/port"
)

// missingNBD is why there is nothing of nbdkit; nil if there is.
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

// nbdServer is nbdkit's file plugin, on TCP.
func (l *lab) nbdServer(file string) (*service, error) {
	key := "nbdkit, " + file
	if s := l.servers[key]; s != nil {
		return s, nil
	}
	free, err := port.Take()
	if err != nil {
		return nil, err
	}
	defer free.Close() // nbdkit listens by then
	number := strconv.Itoa(free.Number)
	cmd := exec.Command("nbdkit", "--foreground", "--exit-with-parent", "--ipaddr", "127.0.0.1", "--port", number, "file", file)
	if err := measure.StartOn(cmd, l.server); err != nil {
		return nil, err
	}
	s := &service{cmd: cmd, at: net.JoinHostPort("127.0.0.1", number)}
	l.servers[key] = s
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.at)
		if err == nil {
			return s, c.Close()
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("nbdkit: %w", err)
		}
	}
}

// runNBD does a job with fio. Like the rest of this program, fio does not time each
// operation and does not remember where it has been.
func (l *lab) runNBD(ctx context.Context, j job) (o outcome, err error) {
	s, err := l.nbdServer(j.File)
	if err != nil {
		return o, err
	}
	rw := "randread"
	if j.Write {
		rw = "randwrite"
	}
	cmd := exec.CommandContext(ctx, "fio", "--name=figures", "--ioengine=nbd", "--uri=nbd://"+s.at, "--rw="+rw,
		fmt.Sprintf("--bs=%d", j.Size), fmt.Sprintf("--iodepth=%d", j.Depth), fmt.Sprintf("--size=%d", j.Span),
		fmt.Sprintf("--runtime=%dms", j.Runtime.Milliseconds()), fmt.Sprintf("--ramp_time=%dms", j.Runtime.Milliseconds()/8),
		"--time_based", "--norandommap", "--randrepeat=0", "--gtod_reduce=1", "--output-format=json")
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	server, machine := measure.ProcessCPU(s.cmd.Process.Pid), measure.MachineCPU()
	if err = measure.StartOn(cmd, l.client); err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return o, fmt.Errorf("fio: %w\n%s", err, stderr.String())
	}
	server = measure.ProcessCPU(s.cmd.Process.Pid) - server
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + server
	machine = measure.MachineCPU() - machine
	if o, err = readFio(out.String(), j.Write); err != nil {
		return o, err
	}
	// What nbdkit did ahead of the measurement is as much for each operation.
	o.Server = time.Duration(float64(server) * float64(o.Took) / float64(o.Took+j.Runtime/8))
	o.Others = machine - used
	return o, nil
}

// errIdle says that the time was too short, on a machine that had other things to do.
var errIdle = errors.New("fio did nothing")

// readFio reads what fio prints as JSON; lines may stand before it.
func readFio(text string, write bool) (o outcome, err error) {
	type side struct {
		Ops     int64 `json:"total_ios"`
		Runtime int64 `json:"runtime"` // milliseconds
	}
	var report struct {
		Jobs []struct {
			Error       int
			Read, Write side
			User        float64 `json:"usr_cpu"` // percent of job_runtime
			System      float64 `json:"sys_cpu"`
			Runtime     int64   `json:"job_runtime"` // milliseconds
		}
	}
	if err := json.Unmarshal([]byte(text[max(strings.IndexByte(text, '{'), 0):]), &report); err != nil {
		return o, fmt.Errorf("fio: %w\n%s", err, text)
	}
	if len(report.Jobs) != 1 || report.Jobs[0].Error != 0 {
		return o, fmt.Errorf("fio: %s", text)
	}
	j := report.Jobs[0]
	did := j.Read
	if write {
		did = j.Write
	}
	if did.Ops == 0 || did.Runtime == 0 {
		return o, fmt.Errorf("%w: %s", errIdle, text)
	}
	o.Ops, o.Took = did.Ops, time.Duration(did.Runtime)*time.Millisecond
	o.Client = time.Duration((j.User + j.System) / 100 * float64(j.Runtime) * float64(time.Millisecond))
	return o, nil
}
