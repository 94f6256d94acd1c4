//go:build !unix

package nbd

import "errors"

// canPoll reports that pollRead does not work.
const canPoll = false

// pollRead is not called.
func pollRead(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
