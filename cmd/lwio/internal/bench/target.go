package bench

import "context"

// Target is one transport to the measured file.
type Target interface {
	// Name is the transport, Completion how its operations complete, "" where there is
	// no choice.
	Name() string
	Completion() string
	// Open makes a connection for a job. It may be called by several goroutines.
	Open(ctx context.Context, j *Job) (Conn, error)
}

// Conn does the operations of one connection.
type Conn interface {
	// Run does the operations that w.Next returns, as many at a time as the job's depth,
	// and calls w.Done for each when it completes. It returns when Next returns no more
	// and all are complete. Its error is one of the connection as a whole.
	Run(ctx context.Context, w *Worker) error
	// ReadAt and WriteAt are outside the measurement, to verify.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	Close() error
}
