package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"lwio"
)

// A rename of unknown outcome is repeated. The old name may be missing only if an earlier rename can have been
// done, and no call is repeated without end.
func TestRenameSurely(t *testing.T) {
	lost := fmt.Errorf("%w: %w", lwio.ErrUncertain, net.ErrClosed)
	given := fmt.Errorf("%w: the time of the call ended", lwio.ErrUncertain)
	for name, x := range map[string]struct {
		outcomes []error // the last one repeats
		want     error
		calls    int
	}{
		"done":                        {[]error{nil}, nil, 1},
		"missing":                     {[]error{fs.ErrNotExist}, fs.ErrNotExist, 1},
		"lost and not done":           {[]error{lost, nil}, nil, 2},
		"lost and done":               {[]error{lost, fs.ErrNotExist}, nil, 2},
		"lost twice and done":         {[]error{lost, lost, fs.ErrNotExist}, nil, 3},
		"lost and refused":            {[]error{lost, fs.ErrPermission}, fs.ErrPermission, 2},
		"uncertain without a loss":    {[]error{given}, lwio.ErrUncertain, 1},
		"lost in each of the repeats": {[]error{lost}, lwio.ErrUncertain, 1 + maxRepeats},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := renameSurely(func() error {
				calls++
				return x.outcomes[min(calls, len(x.outcomes))-1]
			})
			if !errors.Is(err, x.want) || calls != x.calls {
				t.Errorf("%v after %d calls, want %v after %d", err, calls, x.want, x.calls)
			}
		})
	}
}
