package smbserver

import (
	"log/slog"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// durableContexts are the contexts of a CREATE that ask for a durable open, or that close some.
type durableContexts struct {
	request   *smbwire.DurableRequest
	reconnect *smbwire.DurableReconnect
	app       instance
}

// durableContexts returns the contexts of a CREATE that ask for a durable open, or that close some. The server makes
// persistent handles only: a request for any other durable open, or on a connection without them, is
// ignored, and a reconnect finds nothing. Contexts of both versions together are invalid.
//
// Source: [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.10], [MS-SMB2 3.3.5.9.12]
func (r *request) durableContexts(list []smbwire.CreateContext) (asked durableContexts, st ntstatus.Status) {
	if asked.app, st = r.instanceOf(list); st != ntstatus.Success {
		return asked, st
	}
	n, old, first := 0, false, false // contexts of version 2, and of version 1
	for _, x := range list {
		switch x.Name {
		case smbwire.CreateContextDurable:
			first = true
		case smbwire.CreateContextDurableReconnect:
			old = true
		case smbwire.CreateContextDurableV2:
			q, err := smbwire.DecodeDurableRequest(x.Data)
			if err != nil {
				return asked, statusOf(err)
			}
			n, asked.request = n+1, &q
		case smbwire.CreateContextDurableV2Connect:
			q, err := smbwire.DecodeDurableReconnect(x.Data)
			if err != nil {
				return asked, statusOf(err)
			}
			n, asked.reconnect = n+1, &q
		}
	}
	switch {
	case n > 1, n == 1 && (old || first):
		return durableContexts{}, ntstatus.InvalidParameter
	case old, asked.reconnect != nil && !r.conn.agreed.durable:
		return durableContexts{}, ntstatus.ObjectNameNotFound
	case asked.request != nil && (!r.conn.agreed.durable || asked.request.Flags&smbwire.DurablePersistent == 0):
		asked.request = nil
	}
	return asked, ntstatus.Success
}

// createDurable serves a CREATE for a durable open. A CREATE that the client repeats, because it has not
// seen the response, has the open of the first one.
//
// Source: [MS-SMB2 3.3.5.9.10]
func createDurable(r *request, path string, q *smbwire.CreateRequest, asked *durableContexts) ntstatus.Status {
	t := r.conn.srv.lineages
	d := &durable{
		key:     durableKey{client: r.conn.agreed.client.GUID, guid: asked.request.CreateGUID, user: r.session.user},
		app:     asked.app,
		timeout: t.granted(time.Duration(asked.request.Timeout) * time.Millisecond),
	}
	same := t.reserve(d)
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
	}
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
// Source: [MS-SMB2 3.3.5.9.12]
func reclaim(r *request, asked *smbwire.DurableReconnect, q *smbwire.CreateRequest) ntstatus.Status {
	t := r.conn.srv.lineages
	d := t.byFileID(asked.FileID.Persistent)
	if s, ok := t.stale[asked.FileID.Persistent]; ok && d == nil && s.key == (durableKey{r.conn.agreed.client.GUID, asked.CreateGUID, r.session.user}) {
		return s.status
	}
	switch {
	case d == nil, d.key.client != r.conn.agreed.client.GUID, d.key.guid != asked.CreateGUID:
		return ntstatus.ObjectNameNotFound
	case d.key.user != r.session.user:
		return ntstatus.AccessDenied
	}
	return takeOver(r, d, q, vfs.Opened)
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
	o.lease.moved(r.session, o)
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
	fileCreated(r, o, uint32(action), &info, q.Contexts)
	return ntstatus.Success
}
