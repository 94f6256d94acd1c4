package bench

import "context"

// Target is a way to the file that is measured.
type Target interface {
	// Name is the transport, Completion the way in which its operations end, ""
	// where there is but one.
	Name() string
	Completion() string
	// Open makes a lane, a connection of its own, for a job.
	Open(ctx context.Context, j *Job) (Lane, error)
}

// Lane does the operations of one connection.
type Lane interface {
	// Run does the operations that w.Next gives, as many at a time as the job's
	// depth, and tells w of each when it is over. It returns when Next gives no
	// more and all are over; an error is about the lane as a whole.
	Run(ctx context.Context, w *Worker) error
	// ReadAt and WriteAt are outside the measurement, to verify.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	Close() error
}
