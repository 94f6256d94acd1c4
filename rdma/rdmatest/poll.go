package rdmatest

import (
	"errors"
	"runtime"
	"time"

	"lwio/rdma"
)

var (
	errTorn = errors.New("memory has a value that was never written there, or not yet")
	errSlow = errors.New("nothing happens")
)

// limit is the end of a polling loop.
type limit struct {
	until time.Time
	turns int
}

func (r *rig) deadline() *limit { return &limit{until: time.Now().Add(r.patience())} }

// pause lets other goroutines run. It fails after the deadline.
func (l *limit) pause() error {
	l.turns++
	if l.turns%64 != 0 {
		runtime.Gosched()
		return nil
	}
	if time.Now().After(l.until) {
		return errSlow
	}
	time.Sleep(20 * time.Microsecond)
	return nil
}

// awaitResult polls until one request has completed.
func (e *end) awaitResult() error {
	var res [1]rdma.Result
	for end := e.r.deadline(); ; {
		n, err := e.icq.Poll(res[:])
		if err != nil {
			return err
		}
		if n == 1 {
			if res[0].Status != rdma.StatusSuccess {
				return res[0].Status
			}
			return nil
		}
		if err := end.pause(); err != nil {
			return err
		}
	}
}

// all reports whether all bytes of p are b.
func all(p []byte, b byte) bool {
	for _, c := range p {
		if c != b {
			return false
		}
	}
	return true
}
