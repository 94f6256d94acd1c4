// Package pmqos asks Linux's power management that processors wake up soon.
//
// An idle processor sleeps, and the deeper it does the longer it takes to wake up; one of
// a virtual machine halts, and to wake it is a trip to the host for who does it. A process
// may set a limit to that, for the whole machine: no processor then enters a state of
// sleep that takes longer to leave. Below a microsecond there is none, and idle
// processors poll, which costs the power, or the host's processor, that they would
// leave to others.
//
// Hold does so for a time that is known; a Keeper while there is work.
package pmqos

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"
)

// Device takes the limits of processes on Linux: while one has it open, what it wrote
// last holds. The kernel takes the limit back when the process ends, however it does.
const Device = "/dev/cpu_dma_latency"

// Awake is a limit that no state of sleep keeps: idle processors poll.
const Awake = time.Nanosecond

// Request is an open device. It is not safe for concurrent use.
type Request struct{ device *os.File }

// Hold opens a device and sets the limit, more than 0, until Close.
//
// Errors: those of Open, and of a device that does not take it.
func Hold(device string, limit time.Duration) (*Request, error) {
	r, err := Open(device)
	if err != nil {
		return nil, err
	}
	if err := r.Set(limit); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Open opens a device, which is Device but in tests, and sets no limit yet. The caller
// closes the request.
//
// Errors: fs.ErrNotExist if the kernel has none, fs.ErrPermission, errors.ErrUnsupported
// on systems other than Linux; all name the device.
func Open(device string) (*Request, error) {
	f, err := open(device)
	if err != nil {
		return nil, err
	}
	return &Request{f}, nil
}

// Set is the limit from now on, in whole microseconds: what is over is not asked for.
func (r *Request) Set(limit time.Duration) error {
	return r.write(min(limit/time.Microsecond, math.MaxInt32))
}

// Lift takes the limit back, and leaves the device open.
func (r *Request) Lift() error { return r.write(math.MaxInt32) } // longer than all states take

// write gives the device a number of microseconds, in the order of bytes of this machine.
func (r *Request) write(microseconds time.Duration) error {
	if _, err := r.device.Write(binary.NativeEndian.AppendUint32(nil, uint32(microseconds))); err != nil {
		return fmt.Errorf("set the limit: %w", err)
	}
	return nil
}

// Close takes the limit back.
func (r *Request) Close() error { return r.device.Close() }
