// Package sqlitevfs is a virtual file system of SQLite over a client of LWIO: databases, journals
// and logs are files of a share.
//
//	sqlitevfs.Register("app", client)
//	db, err := driver.Open("file:app.db?vfs=app")
//
// The journal modes DELETE, TRUNCATE, PERSIST and MEMORY work with any number of clients. WAL needs
// PRAGMA locking_mode = EXCLUSIVE before it, because clients share no memory.
//
// Locks are ranges of bytes beyond the first gigabyte, as in SQLite on Windows. SQLite never reads
// or writes these bytes, so that the mandatory locks of SMB hinder no data. They belong to
// one open, so connections of one process exclude each other too.
//
// A change whose outcome is uncertain is made again while the database is locked against other
// writers: the second change is then equal to the first, and a Sync before it ends the first.
package sqlitevfs
