// Package smbserver is an SMB 2 and 3 server over vfs: it serves files and named pipes,
// authenticates users, and gives other protocols the sessions as proof of identity.
//
// # Concepts
//
//   - A [Server] owns the connections of its listeners, a connection its sessions, a session
//     its tree connects and handles.
//   - A [Lineage] is a chain of sessions of one client. It is the owner of their opens in vfs, by
//     which LWIO finds and checks them. Its durable opens
//     outlive the connection as orphans, until a session of the client continues the lineage and
//     reclaims them, or their time ends (lineages.go, durables.go, createdurable.go). An orphan that is no persistent handle makes way for
//     other clients (lineages.surrender). keptFiles and
//     keptOpen write persistent handles into the state, from which the next process restores them (restore.go).
//   - The server speaks dialects 2.0.2 to 3.1.1. Every message of a session is signed, or
//     encrypted if the client or the configuration asks for that (encryption.go). The
//     server refuses directory leases, and several channels to a session,
//     with the status that the specification asks for.
//   - An openLease is the lease or the oplock of an open, by which breaks reach its client (lease.go,
//     notices.go). vfs decides about leases. A request that waits for a break has an interim response, and
//     keeps no worker (await.go).
//   - Named pipes on IPC$ are the [PipeHandler]s of the configuration: one message in, one
//     message out. The pipe srvsvc lists the shares (package srvsvc).
//
// # The path of a request
//
// frameReader reads a message. conn.decrypt decrypts it in place, if it is encrypted.
// message.parse splits it into requests and takes their credits. request.authorize finds
// session and tree connect, and checks signature and encryption. The handler of the command
// (dispatch.go has the table) makes the body of the response. response.finish adds header,
// credits and signature. conn.encrypt encrypts the response of an encrypted request in
// place. frameWriter sends it.
//
// # Changes of users and rights
//
// Server.Reauthorize ends the sessions, and the suspended lineages, of users that Config.Lookup no longer
// returns. A session
// asks Config.Lookup again after it became valid, so a logon and a change that overlap leave no
// session behind. Rights are checked by vfs alone. audit.go has the audit log.
//
// # Goroutines
//
// Server.Serve accepts. Each connection has a worker pool of one to Config.MaxWorkers
// goroutines. They take turns at reading a message and then serve it, so a slow request
// does not delay the next one. A goroutine is added only if a message arrives while no
// other goroutine waits for the turn. While Config.MaxWorkers of them serve, another one reads and queues
// messages. Work that must happen in order (negotiation, session
// set-up, cancel, the bookkeeping of message ids), and an ECHO, is done before the turn is passed on, so
// it waits for no file system. A
// request that waits for a lock or for changes of a directory is parked (parked.go): it has a
// goroutine of its own, up to Config.MaxWaits of them, until it is granted or cancelled, or
// its file is closed. A request that waits for the break of a lease counts among them, and not as a worker. Timers end orphans, suspended lineages, and the records of opens that
// could not be restored. Server.Close waits for all of them.
//
// # The end of a session
//
// A session ends for good by LOGOFF, by Reauthorize, at the end of its ticket, or when a session of
// another client names it as the previous one (Session.end). A lost connection suspends it
// (Session.suspend). A session of the same client that continues the lineage retires it
// (Session.retire): it refuses requests, and waits until those in flight that change files have ended
// (inflight.go). A durable open with such a request is not reclaimed before the request ends, so
// nothing of the old connection lands after the new session acts.
//
// # Hostile peers
//
// Lengths are checked against the received message before any allocation. Memory is
// bounded: a connection has at most MaxWorkers messages and 32 MiB of queued ones, and one of 16 KiB before
// authentication. Messages count against the quota of Config.Memory, with the tables of their
// requests, at most maxCompound. Parked requests and the changes that wait for a request hold
// at most a quarter of Config.Memory. A connection is cut in time if it is silent before
// authentication, stops in the middle of a message, or does not read its responses.
//
// # Locks
//
// Mutexes are taken in this order: workers.turn, sessionTable.mu, Server.mu; and watch.beginning,
// the mutexes of vfs, watch.mu; openLease.mu, notices.mu, workers.mu; lineages.mu, openLease.mu; and those of keptFiles.naming, lineages.mu, the mutexes of vfs. The mutexes of
// other components are leaves; surrenders.mu is taken with mutexes of vfs held. No mutex is held during file I/O. Exceptions: if the
// connection is lost, its sessions are torn down with workers.turn held; a file whose durable opens
// are kept is renamed with a mutex of keptFiles.naming held.
//
// Source: [MS-SMB2 3.3]
package smbserver
