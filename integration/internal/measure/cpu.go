package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"lwio/internal/host"
)

// tick is the unit of CPU times in /proc.
const tick = time.Second / 100

// ProcessCPU is the CPU time of a process and of its ended children; the time of the
// children has a resolution of 10 ms. It is 0 for a process that does not exist.
func ProcessCPU(pid int) time.Duration {
	own := host.ProcessCPU(pid)
	if pid == 0 || own < 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return own + sumTicks(fields[13:15])
}

// machineCPU is the time in which processors were not idle, softirqs included.
func machineCPU() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(line) // cpu user nice system idle iowait irq softirq
	return sumTicks(f[1:4]) + sumTicks(f[6:8])
}

func sumTicks(fields [][]byte) time.Duration {
	var n int64
	for _, f := range fields {
		v, _ := strconv.ParseInt(string(f), 10, 64)
		n += v
	}
	return time.Duration(n) * tick
}

// Resident is the resident memory of a process, in bytes.
func Resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	kib, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	return kib << 10
}

// Meter measures the CPU of a run: of the client's process, of the server's, and of the machine.
type Meter struct {
	server          int
	cpu, machine    time.Duration
	start           time.Time
	Took            time.Duration
	Client, Server  time.Duration
	Machine, Others time.Duration
}

// StartMeter begins a measurement; server is the process of the server, or 0.
func StartMeter(server int) *Meter {
	return &Meter{server: server, cpu: ProcessCPU(server), machine: machineCPU(), start: time.Now()}
}

// Stop ends the measurement; client is the state of the client's process, which has ended.
func (m *Meter) Stop(client *os.ProcessState) {
	m.Took, m.Machine = time.Since(m.start), machineCPU()-m.machine
	m.Client = client.UserTime() + client.SystemTime()
	m.Server = m.ServerSince()
	m.Others = max(m.Machine-m.Client-m.Server, 0)
}

// ServerSince is the CPU time of the server's process since StartMeter.
func (m *Meter) ServerSince() time.Duration { return ProcessCPU(m.server) - m.cpu }
