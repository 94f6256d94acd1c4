package smbshare

import (
	"context"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

// Flush leaves a FLUSH that it gives up to a goroutine, which takes the answer.
//
// Source: [OP-92f]
func (h *handle) Flush(ctx context.Context) (late <-chan error, err error) {
	err = h.try(ctx, true, func(f *smbclient.File) error {
		answers, done := make(chan error, 2), make(chan struct{})
		err := h.s.start(func() {
			defer close(done)
			flush(h.s.ctx, f, answers)
		})
		if err != nil {
			return err
		}
		late = answers
		select {
		case <-done:
			return <-answers
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return late, err
}

// flush sends a FLUSH, and its answer to answers, which it closes. It sends another FLUSH after a failure of the disk. The
// server repeats the failure after a loss of the connection, until a later FLUSH shows that the client has the response.
//
// Source: [OP-92f]
func flush(ctx context.Context, f *smbclient.File, answers chan<- error) {
	defer close(answers)
	err := f.Flush(ctx)
	answers <- err
	if !ntstatus.LosesData(err) {
		return
	}
	if err := f.Flush(ctx); ntstatus.LosesData(err) { // data was lost again
		answers <- err
	}
}
