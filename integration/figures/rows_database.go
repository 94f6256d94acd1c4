package main

import "lwio/integration/internal/measure"

// The loads of SQLite: a select of one row, a commit with synchronous = FULL, and the locks that these take.
var (
	selecting  = database{Load: "select", Journal: "DELETE", Count: 2_000}
	committing = database{Load: "commit", Count: 300}
	speedtest  = database{Load: "speedtest1", Journal: "DELETE", Size: 100}
	lockCalls  = database{Load: "lock by", Count: 5_000}
	fcntlCalls = database{Load: "fcntl", Via: viaLocal, Count: 100_000}
)

func (j database) by(via string) database       { j.Via = via; return j }
func (j database) journal(mode string) database { j.Journal = mode; return j }
func (j database) writers(n int) database       { j.Writers = n; return j }

// prepareDatabases builds the server of the rows.
func prepareDatabases(l *measure.Lab, _ options) ([]measure.Row, error) {
	return databaseRows, build(l)
}

// databaseRows are the rows of SQLite on a share.
var databaseRows = []measure.Row{
	{Name: "select", Title: "SQLite: a select of one row, in a transaction of its own", Subjects: onEachStore(selecting),
		Bars: []measure.Bar{atMost(1, 0, measure.P50, 3), atMost(2, 0, measure.P50, 6)}},
	{Name: "commit-delete", Title: "SQLite: a commit, synchronous = FULL, journal mode DELETE", Subjects: onEachStore(committing.journal("DELETE"))},
	{Name: "commit-persist", Title: "SQLite: a commit, synchronous = FULL, journal mode PERSIST", Subjects: onEachStore(committing.journal("PERSIST"))},
	{Name: "speedtest1", Title: "SQLite: its program speedtest1, size 100", Subjects: onEachStore(speedtest),
		Bars: []measure.Bar{atMost(1, 0, measure.P50, 1.5), atMost(2, 0, measure.P50, 2.5)}},
	{Name: "writers", Title: "SQLite: commits, synchronous = FULL, journal mode PERSIST, of two clients that write at once", Subjects: []measure.Subject{
		{Name: "shm, one client", Job: committing.journal("PERSIST").by(viaShm)},
		{Name: "shm, two clients", Job: committing.journal("PERSIST").by(viaShm).writers(2)},
		{Name: "iwarp, one client", Job: committing.journal("PERSIST").by(viaIWARP)},
		{Name: "iwarp, two clients", Job: committing.journal("PERSIST").by(viaIWARP).writers(2)},
	}},
	{Name: "lock", Title: "a lock of a byte and its release, without a lease", Subjects: []measure.Subject{
		{Name: "local, fcntl", Job: fcntlCalls},
		{Name: "shm", Job: lockCalls.by(viaShm)},
		{Name: "iwarp, CRC on", Job: lockCalls.by(viaIWARP)},
		{Name: "SMB alone", Job: lockCalls.by(viaSMB)},
	}},
}

// onEachStore is a load on a local file and over each transport.
func onEachStore(j database) []measure.Subject {
	return []measure.Subject{
		{Name: "local", Job: j.by(viaLocal)},
		{Name: "shm", Job: j.by(viaShm)},
		{Name: "iwarp, CRC on", Job: j.by(viaIWARP)},
		{Name: "SMB alone", Job: j.by(viaSMB)},
	}
}
