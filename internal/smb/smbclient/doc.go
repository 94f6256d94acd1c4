// Package smbclient is a client of SMB 3: a session on a connection, shares,
// files, directories and named pipes.
//
// A Session has one goroutine that reads answers and hands each to the call that
// waits for it, and one, the janitor, that cancels what nobody waits for any more
// and closes handles that came too late. Both end when the connection is lost or
// closed; Close waits for them. Calls send from their own goroutines, as many at
// a time as the server's credits allow; an answer's signature is checked by the
// call that it belongs to. All types are safe for concurrent use.
//
// Memory that a caller passes is never used after the call returned: payload
// passes through the message buffer, since signatures cover it.
//
// A call returns when its context ends; the request is cancelled on the server,
// and may still have been executed. A request with no end in its context is given
// Config.Timeout to make progress; only a lock is waited for as long as its context
// lasts, once the server has said that somebody else has it, and for what becomes of
// it when it is given up. Nothing is sent twice.
//
// Locks are taken in this order: the turn to write, then conn.mu.
//
// Source: [MS-SMB2 3.2]
package smbclient
