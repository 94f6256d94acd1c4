// Package smbserver is an SMB 2 and 3 server over vfs: it names files, proves
// who asks, and hands the proof on to whatever rides beside SMB.
//
// # Concepts
//
//   - A [Server] owns listeners' connections; a connection owns its sessions, a
//     session its tree connects and opens. A [Session] is the owner of its opens
//     in vfs, by which LWIO finds and checks them.
//   - Dialects 2.0.2 to 3.1.1 are spoken. Messages are signed unless the
//     configuration says otherwise. Not offered, and refused with the status the
//     specification asks for: encryption, oplocks and leases,
//     change notification, durable handles, several channels to a session.
//   - Named pipes on IPC$ are the [PipeHandler]s of the configuration: one
//     message in, one message out.
//
// # Goroutines
//
// Server.Serve accepts. Each connection has between one and Config.MaxWorkers
// goroutines that take turns reading a message and then answer it, so that one
// slow request does not hold up the next; a goroutine more is started only if a
// message arrives while nobody else is free to read. What must happen in order
// (negotiation, session set-up, cancel, the bookkeeping of message ids) happens
// before the turn is passed on. A request that waits for a lock has a goroutine of its
// own, up to Config.MaxWaits of them, until the lock is granted or cancelled, or its
// file is closed. Server.Close waits for all of them.
//
// # Hostile peers
//
// Lengths are checked against the received message before anything is
// allocated. Memory is bounded: MaxWorkers messages for each connection, which come out
// of Config.Memory if they are long; before authentication one of 68 KiB. Who says nothing before it has
// authenticated, or stops in the middle of a message, or does not read its
// answers, is cut in time.
//
// # Locks
//
// Mutexes are taken in this order: conn.turn (reading), Session.mu, Server.mu. conn.writeMu
// and conn.credits are leaves. None is held over file I/O, except that a
// session is torn down with conn.turn held if the connection is lost.
//
// Source: [MS-SMB2 3.3]
package smbserver
