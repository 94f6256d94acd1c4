// Package statefile keeps a set of records in a directory, so that the death of the process loses none of
// them: kill -9, the OOM killer, a panic.
//
// # Promise
//
// A record that Log.Apply has accepted is found again by the next Open of the directory, by any process, for as
// long as the host runs. Apply stores it into a mapped file. Its pages belong to the host, so they outlive the
// process, and Apply never waits for a disk. After a restart of the host the records are gone as a whole:
// the directory has the boot id of the host, and Open removes records of another boot (Log.Rebooted). The disk
// could have any part of them, and half of the records is worse than none.
//
// A batch takes effect as a whole: its first 8 bytes are stored last, at once. Without them Open removes the
// others. Any other difference is damage: a *CorruptError with the name of the file and the offset, and nothing
// is changed: a lost lock must not go unnoticed. The header of the file has the end of the last batch, so a file that
// was cut between two batches, or whose last pages are lost, is damaged too. A failure of the file system (ENOSPC,
// EIO, a read-only file system) is the error of the Apply that met it, also if it comes as a signal of
// the store. The log is then as before, and the next Apply tries again.
//
// # Files
//
//   - lock is locked (flock) while a process has the log open. The kernel unlocks it after the last
//     system call of a killed process, so that no write of it is in flight any more.
//   - boot has the boot id of the host and a random text, on stable storage.
//   - times has the TimeBound of the process, if that has set one.
//   - log.N has a header with the end of the batches, the batches in order (frames: size, checksum,
//     changes), and zeros.
//
// The directory has mode 0700, and the files 0600. Space is reserved in steps of 1 MiB (fallocate), so the store
// needs none.
//
// # Compaction
//
// The index in memory has the place of each record, about 60 bytes a record; the values are in the files
// only. When a file has four times the bytes of the present records, log.N+1 is made. Each later batch
// also copies the present records of a few KiB of log.N, up to its end; then log.N is removed. So no batch
// waits for a whole compaction, there is no goroutine, and the files have at most about six times the
// bytes of the present records and 3 MiB.
//
// # Changes by others
//
// A server needs to know whether a file was changed while no process of it ran. TimeBound has a bound of the times of its
// own changes for that. It is in a mapped page, like the records, and bound to the boot of the host.
//
// # Why not bbolt
//
// go.etcd.io/bbolt with NoSync survives the death of the process too, but it writes whole pages of its tree by
// system calls. On one machine, one after the other (a lock with its sequence, in a set of 10,000 records): 0.7 µs without an
// allocation here; 41 µs with 69 allocations in bbolt; 1.3 µs for one pwrite and 0.01 µs for one copy into mapped
// memory of the same size. 10,000 opens with 100,000 locks take 7 MB and load in 48 ms here, 22 ms in bbolt.
package statefile
