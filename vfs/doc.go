// Package vfs is the server's file layer: named shares over backends, and the one table of
// open files. SMB and LWIO do their I/O on the same [Open], so access, share modes, locks and
// deletion hold across both.
//
// # Concepts
//
//   - A [Share] is a name and a [Backend], such as a directory of this host (package posix).
//
//   - [FS.Open] follows the rules of an NT file system: access masks, share modes, six
//     dispositions, delete on close. Share modes and pending deletes belong to the file (device
//     and inode), not to the path or share by which it was opened.
//
//   - An [Open] has an owner, an opaque value by which the opens of a session are found and
//     closed, and a resume key of 24 random bytes by which its owner finds it again. [OP-56]
//
//   - I/O holds a reference ([Open.Acquire], [Open.Release]). [Open.Close] first refuses new
//     references, runs the revoke hooks ([Open.OnRevoke]), waits for the references that are
//     held, and then deletes and closes. [OP-58b]
//
//   - A [Lock] keeps other opens of the file from a range of its bytes: from locking it, and
//     from reading or writing it, over SMB or LWIO ([Open.TryLock], [Open.QueueLock],
//     [Open.Unlock]).
//
// Paths are slash-separated and relative to the share; "" is the share's root. Errors are
// [*Error] and wrap an NT status, to which errors.Is gives the meaning of the Go errors
// (fs.ErrNotExist, fs.ErrPermission, io.EOF, ...).
//
// # Components
//
// FS has the shares, the limits and the table (table.go: which files are open, by which opens,
// and which deletes are pending). An Open is composed of references (I/O in flight), openLocks
// (its byte-range locks, in the lockTable of the file), two hooks (revoke, stall) and, for a
// directory, a directory (its enumeration). An open in progress is a creation, a rename in
// progress a renaming, a close in progress a closing. stalledOpens has the opens whose close did
// not wait for the end of their I/O.
//
// # Exceptions to NT
//
//   - Locks do not keep processes of the server's host from a file, and I/O that has begun may
//     still be in flight when a lock is granted.
//   - Names are as case-sensitive as the backend.
//   - A pending delete stops new opens of every hard link of the file, not only of the link that
//     is deleted.
//   - Supersede empties the file, as overwrite does, and keeps its identity.
//   - Symbolic links inside a share are followed; deleting or renaming a file that was opened
//     through a link works on the link (but a link to a directory with entries cannot be
//     deleted). Special files (neither regular files nor directories), and links that lead
//     nowhere or outside, are not listed and cannot be opened.
//
// # Mutexes
//
// Taken in this order, each optional: share.ns (shared by opens and deletes, exclusive for
// renames and for the delete of directories), one of share.paths (serialises the operations on
// one name), directory.mu, table.mu (never held over I/O), lockTable.mu, userLimit.mu. hooks.mu
// is taken alone. Hooks run with none of them held.
package vfs
