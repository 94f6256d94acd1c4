//go:build !linux

package main

import (
	"errors"
	"fmt"
)

// pinned is not known on this system.
func pinned(func() error) error {
	return fmt.Errorf("bench: --pin: %w on this system", errors.ErrUnsupported)
}
