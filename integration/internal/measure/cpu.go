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

// ProcessCPU is the CPU time of a process and of its children that ended, in
// whole hundredths of a second; 0 for a process that is not there.
func ProcessCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return sumTicks(fields[11:15])
}

// MachineCPU is the time that all processors were not idle, softirqs with it.
func MachineCPU() time.Duration {
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

// SelfCPU is the CPU time of this process, as exactly as the kernel keeps it.
func SelfCPU() time.Duration { return host.CPUTime() }

// Resident is the memory of a process that is in RAM, in bytes.
func Resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	kib, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	return kib << 10
}
