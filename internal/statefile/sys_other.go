//go:build !linux

package statefile

import (
	"errors"
	"os"
)

// errUnsupported is the error of Open on this system.
var errUnsupported = errors.Join(errors.ErrUnsupported, errors.New("the state of a server is kept on Linux only"))

func lockFile(*os.File) error { return errUnsupported }

func steadyTime() int64 { return 0 }

func hostBootID() (string, error) { return "", errUnsupported }

// osFile is a file of the host.
type osFile struct{ *os.File }

func (f *osFile) size() (int64, error)       { return 0, errUnsupported }
func (f *osFile) truncate(int64) error       { return errUnsupported }
func (f *osFile) reserve(_, _ int64) error   { return errUnsupported }
func (f *osFile) commit([]byte, int64) error { return errUnsupported }
func (f *osFile) mark(int64) error           { return errUnsupported }
