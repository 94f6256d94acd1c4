// Package smbserver is an SMB 2 and 3 server over vfs: it serves files and named pipes,
// authenticates users, and gives other protocols the sessions as proof of identity.
//
// # Concepts
//
//   - A [Server] owns the connections of its listeners, a connection its sessions, a session
//     its tree connects and opens. A [Session] is the owner of its opens in vfs, by which
//     LWIO finds and checks them.
//   - Dialects 2.0.2 to 3.1.1 are spoken. Messages are signed unless the configuration
//     allows otherwise. Refused, with the status that the specification asks for, are
//     encryption, oplocks and leases, change notification, durable handles, and several
//     channels to a session.
//   - Named pipes on IPC$ are the [PipeHandler]s of the configuration: one message in, one
//     message out.
//
// # The path of a request
//
// frameReader reads a message, message.parse splits it into requests and takes their
// credits, request.authorize finds session and tree connect and checks the signature, the
// handler of the command (dispatch.go has the table) makes the body of the response,
// response.finish adds header, credits and signature, and frameWriter sends it.
//
// # Goroutines
//
// Server.Serve accepts. Each connection has a worker pool of one to Config.MaxWorkers
// goroutines, which take turns at reading a message and then serve it, so that a slow
// request does not hold up the next; a goroutine is added only if a message arrives while
// no other waits for the turn. Work that must happen in order (negotiation, session set-up,
// cancel, the bookkeeping of message ids) is done before the turn is passed on. A request
// that waits for a lock has a goroutine of its own, up to Config.MaxWaits of them, until the
// lock is granted or cancelled, or its file is closed. Server.Close waits for all of them.
//
// # Hostile peers
//
// Lengths are checked against the received message before any allocation. Memory is bounded:
// MaxWorkers messages for each connection, taken from the quota of Config.Memory if they are
// long; before authentication one of 68 KiB. A connection that is silent before it has
// authenticated, that stops in the middle of a message, or that does not read its responses
// is cut in time.
//
// # Locks
//
// Mutexes are taken in this order: workers.turn, sessionTable.mu, Server.mu. Those of the
// other components are leaves. None is held over file I/O, except that a session is torn
// down with workers.turn held if the connection is lost.
//
// Source: [MS-SMB2 3.3]
package smbserver
