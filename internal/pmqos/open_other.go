//go:build !linux

package pmqos

import (
	"errors"
	"os"
)

func open(device string) (*os.File, error) {
	return nil, &os.PathError{Op: "open", Path: device, Err: errors.ErrUnsupported}
}
