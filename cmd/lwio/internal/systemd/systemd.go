// Package systemd speaks the protocols of a supervisor such as systemd: the notifications of a service
// (sd_notify), the sockets that the service begins with (sd_listen_fds), and the store of descriptors.
package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Supervisor is the supervisor of this process. The zero value is none. Safe for concurrent use.
type Supervisor struct{ socket string }

// FromEnvironment returns the supervisor that the environment names.
func FromEnvironment(env func(string) string) *Supervisor {
	return &Supervisor{socket: env("NOTIFY_SOCKET")}
}

// Present reports whether there is a supervisor.
func (s *Supervisor) Present() bool { return s.socket != "" }

// Ready reports that the service serves.
func (s *Supervisor) Ready() error { return s.notify("READY=1") }

// Stopping reports that the service ends.
func (s *Supervisor) Stopping() error { return s.notify("STOPPING=1") }

// Reloading reports that the service reloads. A Ready follows.
func (s *Supervisor) Reloading() error {
	return s.notify("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(int64(monotonic()/time.Microsecond), 10))
}

// Succeeded reports that another process is the main process of the service, and serves. It returns when
// the supervisor has noticed, so that this process may end.
func (s *Supervisor) Succeeded(pid int) error {
	if err := s.notify(fmt.Sprintf("READY=1\nMAINPID=%d", pid)); err != nil {
		return err
	}
	return s.barrier()
}

// Store gives a descriptor to the supervisor, which gives it back to the next process of the service.
func (s *Supervisor) Store(name string, f *os.File) error {
	return s.notify("FDSTORE=1\nFDNAME="+name, f)
}

// Unstore removes descriptors from the store.
func (s *Supervisor) Unstore(name string) error { return s.notify("FDSTOREREMOVE=1\nFDNAME=" + name) }

// firstFD is the first descriptor that a supervisor passes.
const firstFD = 3

// Inherited is a descriptor that the supervisor has passed to this process.
type Inherited struct {
	// Name is its name, which may be empty.
	Name string
	File *os.File
}

// Inherit returns the descriptors that the supervisor has passed, which belong to the caller. It is called
// once, before a descriptor is opened. It returns none if they are for another process.
//
// Errors: the environment is malformed.
func Inherit(env func(string) string, pid int) ([]Inherited, error) {
	count := env("LISTEN_FDS")
	if count == "" || env("LISTEN_PID") != strconv.Itoa(pid) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1<<16 {
		return nil, fmt.Errorf("LISTEN_FDS=%q: not a number of descriptors", count)
	}
	var names []string
	if text := env("LISTEN_FDNAMES"); text != "" {
		names = strings.Split(text, ":")
	}
	if len(names) > 0 && len(names) != n {
		return nil, fmt.Errorf("LISTEN_FDNAMES has %d names for %d descriptors", len(names), n)
	}
	all := make([]Inherited, n)
	for i := range all {
		all[i].File = inheritedFile(firstFD + i)
		if len(names) > 0 {
			all[i].Name = names[i]
		}
	}
	return all, nil
}
