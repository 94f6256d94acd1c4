package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"lwio/internal/pmqos"
)

// cpuLatency is the value of a flag: how long an idle CPU may take at most to wake up. 0 on
// the command line is no time at all, which is pmqos.Awake here; 0 here is no limit.
type cpuLatency time.Duration

// Set takes the text of the command line.
func (l *cpuLatency) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return errors.New("it must not be negative")
	}
	*l = cpuLatency(max(d, pmqos.Awake))
	return nil
}

// String is the value as the command line would have it.
func (l *cpuLatency) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type is what the help calls the value.
func (l *cpuLatency) Type() string { return "duration" }

// during sets the limit, if there is one, for the time of f.
func (l cpuLatency) during(f func() error) error {
	if l == 0 {
		return f()
	}
	r, err := pmqos.Hold(pmqos.Device, time.Duration(l))
	if err != nil {
		return fmt.Errorf("--cpu-latency: %w", err)
	}
	return errors.Join(f(), r.Close())
}

// cpuIdleDir says how idle CPUs sleep.
const cpuIdleDir = "/sys/devices/system/cpu/cpuidle"

// examineCPULatency tells whether idle CPUs of this host can be kept from sleep, by the
// device, and how they sleep, by the directory.
func examineCPULatency(device, idle string) finding {
	f := finding{Feature: "cpu-latency"}
	r, err := pmqos.Open(device)
	if err == nil {
		f.Usable, f.Detail = true, "--cpu-latency can keep idle CPUs from sleep"
		err = r.Close()
	}
	if err != nil {
		f.Usable, f.Detail, f.Next = false, err.Error(), awakeAdvice(err)
	}
	if s := sleeps(idle); s != "" {
		f.Detail += "; " + s
	}
	return f
}

// sleeps tells how idle CPUs sleep, "" if that cannot be told.
func sleeps(dir string) string {
	b, err := os.ReadFile(dir + "/current_driver")
	switch driver := strings.TrimSpace(string(b)); {
	case err != nil:
		return ""
	case driver == "haltpoll", driver == "none":
		return "driver " + driver + ": they halt, and in a virtual machine it takes the host to wake one; 0 is the only limit that prevents it"
	default:
		return "driver " + driver
	}
}

// awakeAdvice is what to do where CPUs cannot be kept from sleep.
func awakeAdvice(err error) string {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return "nothing to do: only Linux has it"
	case errors.Is(err, fs.ErrNotExist):
		return "give the container the host's " + pmqos.Device + "; or the kernel is without CONFIG_CPU_IDLE"
	case errors.Is(err, fs.ErrPermission):
		return "give a group the right with a rule of udev: KERNEL==\"cpu_dma_latency\", GROUP=\"lwio\", MODE=\"0660\"; root in a container needs the device from the host"
	}
	return "look at " + pmqos.Device
}
