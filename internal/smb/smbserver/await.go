package smbserver

import (
	"context"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// untilBroken calls f until it does not have to wait for the break of a lease. again says that f has waited.
func (r *request) untilBroken(f func(again bool) error) error {
	for again := false; ; again = true {
		err := f(again)
		w := vfs.AsLeaseWait(err)
		if w == nil {
			return err
		}
		if err := r.await(w); err != nil {
			return err
		}
	}
}

// await waits for the break of a lease. The client gets an interim response, and the goroutine does not count
// as a worker meanwhile: the acknowledgement may come over the same connection. The wait ends with CANCEL, with
// the session, and when the connection is drained. In the last case the client sends the request again, to
// the next server, if it takes notifications.
//
// Source: [MS-SMB2 3.3.4.2], [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
func (r *request) await(w *vfs.LeaseWait) (err error) {
	c := r.conn
	r.answers.flush()
	c.workers.aside(func() {
		r.waiting(func(ctx context.Context) ntstatus.Status {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(c.waits, cancel)()
			err = w.Wait(ctx)
			return statusOf(err)
		})
	})
	if err != nil && c.waits.Err() != nil && c.notifies() && r.single {
		r.dropped = true
		r.resp.discard()
	}
	return err
}
