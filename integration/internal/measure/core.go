package measure

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StartOn starts a command on one core. All threads of the command keep to the core,
// because it inherits the core from the thread that starts it. The command is killed if
// this process ends first.
func StartOn(cmd *exec.Cmd, core int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // Go keeps the thread until then, too
	if err := Pin(0, core); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), unix.SchedSetaffinity(0, &before))
}

// Pin keeps a thread, and the processes that it starts later, to one core; 0 is the calling
// thread.
func Pin(tid, core int) error {
	var one unix.CPUSet
	one.Set(core)
	if err := unix.SchedSetaffinity(tid, &one); err != nil {
		return fmt.Errorf("sched_setaffinity to core %d: %w", core, err)
	}
	return nil
}

// Cores lists the cores that this process may use.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cores []int
	for i := 0; len(cores) < set.Count(); i++ {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores, nil
}

// awaitListener waits until a server accepts connections at an address, or at a Unix socket with an absolute path.
func awaitListener(address string) error {
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}
