// Package vfs is the server's file layer: named shares over backends, and one table of open files.
// SMB and LWIO do their I/O on the same [Open], so access, share modes, locks and deletion apply to
// both.
//
// # Concepts
//
//   - A [Share] is a name and a [Backend], such as a directory of this host (package posix).
//
//   - [FS.Open] follows the rules of an NT file system: access masks, share modes, six
//     dispositions, delete on close. Share modes and pending deletes belong to the file (device
//     and inode), not to the path or share by which it was opened.
//
//   - A user has [Rights] on a share (Share.Rights). FS.Connect and FS.Open check them, and no other
//     code has to: all I/O, over SMB and LWIO, is bounded by the granted access of an open.
//     [FS.Reauthorize] closes the opens that new rights forbid.
//
//   - An [Open] has an owner ([Ownership]): an opaque value that stands for a client, and by which
//     all its opens are closed. It has a resume key of 24 random bytes, by which its owner finds it
//     again. An open whose client has lost its connection is an orphan. [OP-56]
//
//   - [FS.Restore] makes an open of an earlier process again from its [Record], if its file is still
//     the same one. Until all restored opens of a file are taken over or closed, the file is in its
//     grace period: it cannot be opened anew.
//
//   - I/O holds a reference ([Open.Acquire], [Open.Release]). [Open.Close] first refuses new
//     references, runs the revoke hooks ([Open.OnRevoke]), waits for the held references, and then
//     deletes and closes. [OP-58b]
//
//   - A watch ([Open.Watch]) reports the changes of a directory: those by opens of its share, over
//     SMB and LWIO.
//
//   - A [Lock] keeps other opens of the file from locking, reading or writing a range of its
//     bytes, over SMB and LWIO ([Open.TryLock], [Open.QueueLock], [Open.Unlock]).
//
//   - A lease or an oplock ([LeaseRequest]) allows a client to cache data, or to delay a close. Each
//     operation of another open that contradicts it, over SMB or LWIO, breaks it first. An operation that
//     has to wait for the acknowledgement returns a [LeaseWait], and waits without a lock.
//
//   - A lease of a directory allows to cache its entries: their names, times, sizes and attributes. A change of an entry
//     by an open that does not name the lease (LeaseRequest.Parent) breaks it, and does not wait. Writes are such a
//     change when their file is flushed or closed.
//
// Paths are slash-separated and relative to the share; "" is the share's root. Errors are [*Error] and
// wrap an NT status. errors.Is compares the status with the Go errors (fs.ErrNotExist,
// fs.ErrPermission, io.EOF, ...).
//
// # Components
//
// FS has the shares, the limits and the table (open files, their opens, pending deletes). An Open is
// composed of its tableEntry (the part that the table changes), its Ownership (the client),
// references (I/O in flight), writesInProgress of its file, openLocks (its byte-range locks, in the lockTable of the file), openLease (its
// lease, in the fileLeases of the file; leaseTable has those of all files),
// changeReports (its reports to watches, and to the leases of its directory), two hooks (revoke, stall) and, for a directory, a directory
// (its enumeration). A creation is an open in progress, a renaming a rename in progress, a closing a
// close in progress.
// The watches of a share are its component watches. stalledOpens counts the closed opens with I/O
// that has not ended.
//
// # Exceptions to NT
//
//   - Locks do not apply to processes of the server's host. I/O that began before a lock was
//     granted may still be in flight.
//   - Watches do not see processes of the server's host, other shares of the same files, and names
//     below a symbolic link. The writes of an open are reported at the first one, and after the
//     last one by Sync or Close.
//   - Processes of the server's host break no leases. A change of a file with several names breaks the leases of the
//     directory of the name by which it was opened.
//   - The backend decides whether names are case-sensitive.
//   - A pending delete stops new opens of all hard links of the file.
//   - Supersede empties the file, as overwrite does, and keeps its identity.
//   - Symbolic links inside a share are followed. The delete or the rename of a file that was
//     opened through a link changes the link and leaves the target. Special files (neither regular
//     files nor directories) are not listed and cannot be opened. The same rule applies to links to
//     a missing target or out of the share.
//
// # Mutexes
//
// Mutexes are taken in this order: share.ns (shared by opens and deletes, exclusive for renames and
// for the delete of directories), one of share.paths (serialises the operations on one name),
// directory.mu, writesInProgress.mu (held over I/O by Redo alone), table.mu (never held over I/O), leaseTable.mu, pendingDirs.mu, watches.mu (held while functions of
// watches run), lockTable.mu, account.Sum. hooks.mu and stalledOpens.mu are taken alone. Hooks run
// without a held mutex.
package vfs
