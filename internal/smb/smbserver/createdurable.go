package smbserver

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// durableContexts are the contexts of a CREATE that ask for a durable open, or that close some.
type durableContexts struct {
	request   *smbwire.DurableRequest
	first     bool // a request of version 1
	reconnect *orphanName
	app       instance
}

// orphanName names an orphan that the client asks for.
type orphanName struct {
	id    uint64 // the persistent part of the FileId
	first bool   // of version 1, which has no GUID
	guid  [16]byte
}

// durableContexts returns the contexts of a CREATE that ask for a durable open, or that close some. A request for
// a durable open on a connection without them is ignored, and a reconnect finds nothing. Contexts of both
// versions together are invalid. Beside a reconnect of version 1 a request of version 1 is ignored.
//
// Source: [MS-SMB2 3.3.5.9.6], [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.10], [MS-SMB2 3.3.5.9.12]
func (r *request) durableContexts(list []smbwire.CreateContext) (asked durableContexts, st ntstatus.Status) {
	if asked.app, st = r.instanceOf(list); st != ntstatus.Success {
		return asked, st
	}
	n := 0 // contexts of version 2
	for _, x := range list {
		var err error
		switch x.Name {
		case smbwire.CreateContextDurable:
			asked.first = true
		case smbwire.CreateContextDurableReconnect:
			var q smbwire.DurableV1Reconnect
			q, err = smbwire.DecodeDurableV1Reconnect(x.Data)
			asked.reconnect = &orphanName{id: q.FileID.Persistent, first: true}
		case smbwire.CreateContextDurableV2:
			var q smbwire.DurableRequest
			q, err = smbwire.DecodeDurableRequest(x.Data)
			n, asked.request = n+1, &q
		case smbwire.CreateContextDurableV2Connect:
			var q smbwire.DurableReconnect
			q, err = smbwire.DecodeDurableReconnect(x.Data)
			n++
			if asked.reconnect == nil {
				asked.reconnect = &orphanName{id: q.FileID.Persistent, guid: q.CreateGUID}
			}
		}
		if err != nil {
			return asked, statusOf(err)
		}
	}
	old := asked.first || asked.reconnect != nil && asked.reconnect.first
	if n > 1 || n == 1 && old {
		return durableContexts{}, ntstatus.InvalidParameter
	}
	return r.agreedDurables(asked)
}

// agreedDurables is durableContexts for a list that is valid.
func (r *request) agreedDurables(asked durableContexts) (durableContexts, ntstatus.Status) {
	if c := asked.reconnect; c != nil && (!r.conn.srv.lineages.enabled() || !c.first && !r.conn.agreed.durable) {
		return durableContexts{}, ntstatus.ObjectNameNotFound
	}
	if !r.conn.agreed.durable {
		asked.request = nil
	}
	asked.first = asked.first && r.conn.srv.lineages.enabled()
	return asked, ntstatus.Success
}

// createDurable serves a CREATE for a durable open. A CREATE that the client repeats, because it has not
// seen the response, has the open of the first one.
//
// Source: [MS-SMB2 3.3.5.9.6], [MS-SMB2 3.3.5.9.10]
func createDurable(r *request, path string, q *smbwire.CreateRequest, asked *durableContexts) ntstatus.Status {
	t := r.conn.srv.lineages
	d := &durable{key: durableKey{client: r.conn.agreed.client.GUID, user: r.session.user}, app: asked.app}
	var same *durable
	if asked.request == nil {
		d.first, d.timeout = true, t.granted(0)
	} else {
		d.key.guid = asked.request.CreateGUID
		d.persistent = asked.request.Flags&smbwire.DurablePersistent != 0
		d.timeout = t.granted(time.Duration(asked.request.Timeout) * time.Millisecond)
		same = t.reserve(d)
	}
	if same == nil {
		t.closeInstance(d.app, r.session, r.tree.share, path)
		st := createFile(r, path, q, d)
		t.withdraw(d)
		return st
	}
	switch {
	case r.hdr.Flags&smbwire.FlagReplay == 0:
		return ntstatus.DuplicateObjectID
	case !t.made(same):
		return ntstatus.FileNotAvailable
	case !same.lease.replays(q):
		return ntstatus.AccessDenied
	}
	r.repeats = true
	if o := t.handleOf(same, r.session); o != nil {
		return again(r, o, q, same.action)
	}
	if st := takeOver(r, same, q, same.action); st != ntstatus.ObjectNameNotFound {
		return st
	}
	return ntstatus.DuplicateObjectID // of an open that another session uses
}

// reclaim serves a CREATE that takes over an orphan.
//
// Source: [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.12]
func reclaim(r *request, asked *orphanName, q *smbwire.CreateRequest) ntstatus.Status {
	t := r.conn.srv.lineages
	d := t.byFileID(asked.id)
	if d == nil {
		if st, ok := t.stale.answer(asked.id, durableKey{r.conn.agreed.client.GUID, asked.guid, r.session.user}); ok {
			return st
		}
	}
	same := d != nil && d.key.client == r.conn.agreed.client.GUID // client
	switch {
	case d == nil, !asked.first && d.key.guid != asked.guid, asked.first && d.persistent, !same && (d.persistent || d.lease.keyed()):
		return ntstatus.ObjectNameNotFound
	case d.key.user != r.session.user:
		return ntstatus.AccessDenied
	}
	if !d.persistent {
		if st := d.lease.reclaims(d.file, q); st != ntstatus.Success {
			return st
		}
	}
	q.Contexts = slices.DeleteFunc(q.Contexts, func(x smbwire.CreateContext) bool { return x.Name == smbwire.CreateContextDurable })
	r.awaitLoss(d)
	return takeOver(r, d, q, vfs.Opened)
}

// lossTime bounds the wait for the end of a connection that its client has lost.
const lossTime = time.Second

// awaitLoss waits while another connection has a durable open: the client may have reconnected before the server
// has seen the loss.
func (r *request) awaitLoss(d *durable) {
	s := r.conn.srv.lineages.sessionOf(d)
	if s == nil || s.conn == r.conn {
		return
	}
	r.waiting(func(ctx context.Context) ntstatus.Status {
		late := time.NewTimer(lossTime)
		defer late.Stop()
		select {
		case <-s.gone:
		case <-late.C:
		case <-ctx.Done():
		}
		return ntstatus.Success
	})
}

// takeOver gives an orphan to the session of a request, which answers with that action. The tree connect
// must be to the share of the orphan.
func takeOver(r *request, d *durable, q *smbwire.CreateRequest, action vfs.Action) ntstatus.Status {
	t := r.conn.srv.lineages
	if r.tree.share != d.file.Share() {
		return ntstatus.ObjectNameNotFound
	}
	o := &open{tree: r.tree}
	if st := t.claim(d, r.session, o); st != ntstatus.Success {
		return st
	}
	o.lease = d.lease
	o.lease.moved(r.session, o, r.encrypted != nil)
	if st := r.session.add(o); st != ntstatus.Success {
		t.release(d)
		return st
	}
	t.count.reclaimed.Add(1)
	r.session.audit("open reclaimed", slog.String("share", r.tree.share.Name), slog.String("path", d.file.Path()))
	return again(r, o, q, action)
}

// again makes the response to a CREATE whose open was made before.
func again(r *request, o *open, q *smbwire.CreateRequest, action vfs.Action) ntstatus.Status {
	info, err := o.file.Stat()
	if err != nil {
		return statusOf(err)
	}
	fileCreated(r, o, uint32(action), &info, q)
	return ntstatus.Success
}
