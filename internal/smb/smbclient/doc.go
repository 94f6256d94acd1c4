// Package smbclient is a client of SMB 3: a session on a connection, shares, files,
// directories and named pipes.
//
// A connection has three goroutines. The reader reads responses and delivers each to the call
// that waits for it. The janitor cancels abandoned requests and closes handles that arrive
// too late. The third one renews the authentication. They end when the connection is lost or
// closed; Close waits for them. Calls send from their own goroutines, as many at a time as the
// server's credits allow. Each call checks the signature of its response; the reader decrypts
// encrypted messages. All types are safe for concurrent use.
//
// Requests are signed. They are encrypted instead once the configuration, the server or a
// share of the session requires that; a response to an encrypted request must be encrypted.
//
// The memory of a caller is not used after the call has returned: payload passes through the
// message buffer, since signatures cover it, and encryption works in place.
//
// A call returns when its context ends; the request is cancelled at the server, which may
// have executed it nevertheless. A request without a deadline in its context has
// Config.Timeout to make progress. A lock is the exception: after the server has reported
// that another open holds the range, the call waits until its context ends, and then for
// the outcome of the cancellation. A request is sent again only if the server has refused it
// because the authentication of the session had ended.
//
// A session whose authentication has an end, by Kerberos, is authenticated again before that.
// Its keys and opens stay.
//
// Locks are taken in this order: the turn to write, requestTable.mu, credits.mu. The others
// are leaves.
//
// Source: [MS-SMB2 3.2]
package smbclient
