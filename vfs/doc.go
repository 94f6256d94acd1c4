// Package vfs is what a server serves: named shares over backends, and the one
// table of open files in which SMB and LWIO meet. Both do their I/O on the same
// [Open], so access, share modes and deletion hold across both.
//
// # Concepts
//
//   - A [Share] is a name and a [Backend], such as a directory of this host
//     (package posix).
//
//   - [FS.Open] follows the rules of an NT file system: access masks, share
//     modes, six dispositions, delete on close. Share modes and pending deletes
//     belong to the file (device and inode), whatever path or share led to it.
//
//   - An [Open] has an owner, an opaque value by which a session's opens are
//     found and closed, and a resume key of 24 random bytes that its owner may
//     turn back into the open. [OP-56]
//
//   - I/O holds a reference ([Open.Acquire], [Open.Release]). [Open.Close] first
//     refuses new references, tells whoever asked ([Open.OnRevoke]), waits for
//     those that are held, and only then deletes and closes. [OP-58b]
//
//   - A [Lock] keeps other opens of the file from a range of its bytes: from locking it,
//     and from reading or writing it, over SMB or LWIO ([Open.TryLock], [Open.QueueLock],
//     [Open.Unlock]).
//
// Paths are slash-separated and relative to the share; "" is the share's root.
// Errors are *[Error] and wrap an NT status, to which errors.Is gives the
// meaning of the Go errors (fs.ErrNotExist, fs.ErrPermission, io.EOF, ...).
//
// # Exceptions to NT
//
//   - Locks do not keep processes of the server's host from a file, and I/O that has
//     begun may still be going on when a lock is granted.
//   - Names are as case-sensitive as the backend.
//   - A pending delete stops new opens of every hard link of the file, not only
//     of the link that goes.
//   - Supersede empties the file, as overwrite does, and keeps its identity.
//   - Symbolic links inside a share are followed; deleting or renaming what was
//     opened through a link works on the link (but a link to a directory with
//     entries cannot be deleted). What is neither a regular file nor
//     a directory, and links that lead nowhere or outside, are not listed and
//     cannot be opened.
//
// # Mutexes
//
// Taken in this order, each optional: share.ns (shared by opens and deletes,
// exclusive for renames and for directories that are about to go), one of
// share.paths (serialises what is done to one name), FS.mu (the maps and what
// they reach, never held over I/O), lockTable.mu, userLimit.mu. Hooks run with none of
// them held.
package vfs
