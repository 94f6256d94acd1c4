package smbclient

import (
	"context"
	"sync"
	"time"
)

// janitor is a goroutine that cancels abandoned requests and closes handles that arrived
// too late. It is safe for concurrent use.
type janitor struct {
	timeout time.Duration // of a job
	wake    chan struct{} // buffers one value: there are jobs

	mu   sync.Mutex
	jobs []func(context.Context)
}

// do queues a job. The context of the job ends after the timeout.
func (j *janitor) do(job func(context.Context)) {
	j.mu.Lock()
	j.jobs = append(j.jobs, job)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run runs jobs until down is closed.
func (j *janitor) run(down <-chan struct{}) {
	for {
		select {
		case <-down:
			return
		case <-j.wake:
		}
		j.mu.Lock()
		jobs := j.jobs
		j.jobs = nil
		j.mu.Unlock()
		for _, job := range jobs {
			ctx, cancel := context.WithTimeout(context.Background(), j.timeout)
			job(ctx)
			cancel()
		}
	}
}
