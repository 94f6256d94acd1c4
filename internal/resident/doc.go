// Package resident keeps the hot parts of files in memory, so that short reads of them need
// no system call that copies.
//
// A [View] is an open descriptor of a file; those of one file, by its [Key], have what is
// kept in common. A file is cut into chunks. One that many short reads hit within seconds is promoted, by a
// goroutine of the [Cache]: it is mapped, for reading only, and locked in memory, as far as
// the cache's budget goes. From then on View.Bytes gives its bytes where they are. What
// has not been read for a while is unlocked, or makes room for what is; also of files that
// nobody has open: who opens one again finds it.
//
// # What makes it safe
//
// Who reads is often a goroutine that others wait for, and must wait for no disk:
//
//   - Bytes that are locked stay in memory. Mapping, locking, and the reading that comes
//     with it are the work of a goroutine for each device, so that a disk that hangs holds up
//     the promotions of its own files alone. What others need to go on is not waited for.
//
//   - What lies beyond the end of the file is not given. That it still reaches so far, for one
//     that was seen to, is told by the last byte that is to be read: the system makes zero what
//     is cut off within a page, and takes whole pages away. A zero says nothing, and the
//     system is asked for the size. If the file becomes shorter between that and the copy, its
//     pages are taken away: the copy faults, [Copy] says so, and the file is read by a system
//     call. Within its last page zeros may be read, as with a system call, which looks at the
//     size before it copies too. Only who cuts a file within a page, and then writes by a
//     mapping behind the end that he has made, which no file keeps, has that read as if it
//     were of the file, until somebody asks for the size.
//
//   - Only file systems are mapped whose page cache is all there is on this host, so that
//     the mapping always shows what was written last: those of fileSystems.
//
//   - Who writes to the file with O_DIRECT, on this host, makes holes in it, or cuts it and
//     lets it grow again, takes locked pages away, and the next read of such a page waits
//     for it. The cache looks for that every SweepEvery, and leaves such a file alone for
//     LeaveAlone.
//
// The mapping is never handed to who could write to it, and cannot be written: a write to it
// is a fault. It is there as long as a view of the file is; a slice of it must not be used
// longer than the view that gave it. It keeps a file that was deleted on disk, until it has
// gone: Forget says so of those that are known.
//
// # Locks
//
// Cache.mu guards the list of chunks, the queue and the sums; it is not held while a disk
// may be waited for, and who reads only tries to take it.
package resident
