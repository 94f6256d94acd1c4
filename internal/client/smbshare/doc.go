// Package smbshare is the SMB side of a client: the session, the share, open files, names and
// locks. A session outlives its TCP connection.
//
// # Files
//
//   - smb.go: the interfaces of a session and of an open file; fileinfo.go, listing.go: entries.
//   - session.go: calls, and the policy by which they are sent again; link.go: one SMB session on one
//     connection; keep.go: the maintainer, which replaces a lost link.
//   - handle.go: an open file, and its reclaim; lock.go, locksequence.go: its locks.
//
// # Goroutines
//
// The maintainer of a session waits for the loss of the link and makes the next one. After that it reclaims the
// opens, with several goroutines. A call that needs an open earlier has it reclaimed by a goroutine of the
// session: the call may end before that. Close waits for all of them.
//
// # Mutexes
//
// In this order: the turn of a handle, session.mu, handle.mu and lockSequences.mu. Only the turn is held while
// waiting for the server.
package smbshare
