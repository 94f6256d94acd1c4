// Package sqlite keeps SQLite databases in files of an LWIO share: a file system (VFS) for
// github.com/ncruces/go-sqlite3, and connections of database/sql that an LWIO URL names.
//
//	import _ "lwio/sqlite/driver"
//
//	db, err := sql.Open("lwio", "lwio://alice@db1:4450/data/app.db?_pragma=busy_timeout(10000)")
//
// [Open] does the same with a Config of the client. A program with an open Client uses [Register]:
//
//	err := sqlite.Register("data", client)
//	db, err := sqlite3.Open("file:app.db?vfs=data")
//
// Temporary files are local. Package lwio describes the connection, its transports and its losses.
//
// # Journal modes
//
// DELETE, TRUNCATE, PERSIST, MEMORY and OFF work with any number of connections, processes and hosts.
//
// WAL works for one connection at a time, with PRAGMA locking_mode = EXCLUSIVE before the first read:
//
//	...?_pragma=locking_mode(exclusive)&_pragma=journal_mode(wal)
//
// WAL that connections share is refused with [ErrSharedWAL]. Such connections keep the index of the log
// in memory that all of them map. Connections of several hosts have no such memory. Connections of
// one host could have it, but no file of the share could then tell them from a connection on another
// host, or from SQLite on the host of the server, with an index of its own; two indexes of one log
// destroy the database. PRAGMA journal_mode = WAL without exclusive locking fails; SQLite itself would
// leave the journal mode without an error. An attached database needs PRAGMA NAME.locking_mode = EXCLUSIVE
// with its name. A database whose header says WAL cannot be opened otherwise, and the error names
// ErrSharedWAL.
//
// # Locks
//
// The five states of a lock are byte-range locks of LWIO, with the bytes that SQLite uses on Unix and on
// Windows. They belong to one open, so connections of one process exclude each other too. SQLite keeps no
// data in these bytes, so the locks, which the server enforces, hinder no read and no write. Each attempt
// answers at once; SQLite itself waits for busy_timeout.
//
// SQLite on other hosts that reaches the same share by SMB, on Windows or by a mount of Linux with its
// byte-range locks, sees these locks. SQLite on the host of the server that opens the file in the served
// directory does not: the server takes no POSIX locks. Such a program may use the database only while
// no client has it open.
//
// # Durability
//
// PRAGMA synchronous = FULL, NORMAL and OFF mean the same as for a local file: each sync that SQLite asks for
// is an fsync at the server, and both kinds of sync are the same. PRAGMA synchronous = EXTRA syncs the
// directory after the removal of a journal. The name of a new journal is durable with the fsync of the journal, as the file systems ext4, XFS and Btrfs
// have it.
//
// A write damages no bytes beside it if the power fails (powersafe overwrite), as SQLite assumes of local
// files; psow=0 in a URI says otherwise. A sector has 4096 bytes. Writes are not atomic, appends are not
// safe, and a file can be deleted while it is open. So none of these is reported to SQLite.
//
// # Failures
//
// A write, or another change, whose outcome is uncertain is made again while this connection has the database
// locked against other writers, after a sync that ends the first attempt. So a lost connection fails no
// transaction if the server keeps its locks. Otherwise SQLite gets an I/O error, the transaction is not
// reported as done, and its journal rolls it back at the next use.
//
// A journal is opened for a change, and removed, only while the server keeps the lock of the connection on the database.
//
// A file that the server does not keep any more fails with lwio.ErrStale, and with it each call of the
// connection of SQLite; database/sql replaces that connection. A call of SQLite takes at most a minute. An
// interrupt, or the end of a context of database/sql, ends the open of a database, and before the first change of a
// transaction a read, a lock and the search for a journal, also while the server does not answer. With [Register] it
// ends neither the open, nor the search if several connections have the database open: SQLite does not say which of
// them it is for. The error of SQLite wraps the error of the client.
//
// A database that is deleted or replaced by another program refuses changes with READONLY_DBMOVED.
package sqlite
