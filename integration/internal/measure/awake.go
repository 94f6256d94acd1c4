package measure

import (
	"errors"

	"lwio/internal/pmqos"
)

// MissingAwake is why idle processors cannot be kept awake here; nil if they can.
func MissingAwake() error {
	r, err := pmqos.Open(pmqos.Device)
	if err != nil {
		return err
	}
	return r.Close()
}

// Awake calls f, and has idle processors of the machine poll meanwhile, and not sleep.
func Awake(f func() error) error {
	r, err := pmqos.Hold(pmqos.Device, pmqos.Awake)
	if err != nil {
		return err
	}
	return errors.Join(f(), r.Close())
}
