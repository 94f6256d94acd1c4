package smbserver

import (
	"sync"

	"lwio/internal/smb/smbwire"
)

// notice is a break of a lease that goes to a client.
type notice struct {
	session *Session
	sealed  bool // the client encrypts
	body    []byte
}

// notices are the notifications of breaks that a connection has to send, in their order. A goroutine sends them
// while there are any, so no break waits for a client that does not read. Their number is bounded by that of the
// opens. Safe for concurrent use.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
type notices struct {
	conn *conn

	mu      sync.Mutex
	list    []notice
	sending bool
}

// add queues a notification. It reports false if the connection has ended.
func (q *notices) add(n notice) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn.ctx.Err() != nil {
		return false
	}
	q.list = append(q.list, n)
	if !q.sending {
		q.sending = q.conn.workers.beside(q.send)
	}
	return q.sending
}

// send sends notifications until there are none.
func (q *notices) send() {
	for {
		q.mu.Lock()
		if len(q.list) == 0 {
			q.sending, q.list = false, nil
			q.mu.Unlock()
			return
		}
		n := q.list[0]
		q.list = q.list[1:]
		q.mu.Unlock()
		q.conn.sendNotice(&n)
	}
}

// sendNotice sends one notification. It belongs to no session, and is not signed; it is encrypted for a
// client that encrypts.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.4.1.4]
func (c *conn) sendNotice(n *notice) {
	out := c.buffer(bufferSize(smallBody), n.session.user)
	out.B = append(out.B[:bodyOffset], n.body...)
	h := smbwire.Header{Command: smbwire.CommandOplockBreak, Flags: smbwire.FlagResponse, MessageID: smbwire.OplockBreakMessageID}
	var by *Session
	if n.sealed && n.session.cipher != nil {
		by, h.SessionID = n.session, n.session.id
	}
	h.Put(out.B[headroom:])
	c.write(by, out)
}
