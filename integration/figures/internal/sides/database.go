package sides

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"lwio"
	"lwio/internal/host"
	"lwio/rdma"
	"lwio/sqlite"
)

// rowsOfTable is the number of rows of which a select reads one.
const rowsOfTable = 1000

// selects reads one row, in a transaction of its own.
func (s *side) selects() error {
	const fill = "WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < ?) INSERT INTO t SELECT i, randomblob(100) FROM many"
	n := 0
	return s.withDatabase(fill, "SELECT d FROM t WHERE id = ?", func(q *sqlite3.Stmt) error {
		n++
		return q.BindInt(1, 1+n*7919%rowsOfTable)
	})
}

// commits inserts one row, in a transaction of its own.
func (s *side) commits() error {
	return s.withDatabase("", "INSERT INTO t (d) VALUES (randomblob(100))", func(*sqlite3.Stmt) error { return nil })
}

// withDatabase makes a database in a new file and fills it. Then Flight connections, each of a client of its own, repeat
// a statement with the parameters that bind sets.
func (s *side) withDatabase(fill, statement string, bind func(q *sqlite3.Stmt) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	queries := make([]*sqlite3.Stmt, max(s.Flight, 1))
	s.Flight = len(queries)
	for i := range queries {
		db, end, e := s.openDatabase(ctx, fmt.Sprint("figures-", i))
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, end()) }()
		if i == 0 {
			if err := db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, d BLOB)"); err != nil {
				return err
			}
			if err := fillTable(db, fill); err != nil {
				return err
			}
		}
		if queries[i], _, e = db.Prepare(statement); e != nil {
			return e
		}
		defer func() { err = errors.Join(err, queries[i].Close()) }()
	}
	return s.servedPhases(func(i int) error {
		q := queries[i]
		if err := bind(q); err != nil {
			return err
		}
		for q.Step() {
			continue
		}
		return q.Reset() // with the error of Step
	})
}

// fillTable makes the rows of a select. Without a statement it makes none.
func fillTable(db *sqlite3.Conn, fill string) error {
	if fill == "" {
		return nil
	}
	q, _, err := db.Prepare(fill)
	if err != nil {
		return err
	}
	return errors.Join(q.BindInt(1, rowsOfTable), q.Exec(), q.Close())
}

// openDatabase opens the database: a local file, or a file of the share at Peer, with a client of its own and a file
// system of that name. end closes both.
func (s *side) openDatabase(ctx context.Context, name string) (db *sqlite3.Conn, end func() error, err error) {
	uri, leave := "file:"+s.File, func() error { return nil }
	if s.Via != "" {
		c, err := s.logOn(ctx)
		if err != nil {
			return nil, nil, err
		}
		if err := sqlite.Register(name, c); err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		uri += "?vfs=" + name
		leave = func() error {
			sqlite.Unregister(name)
			return c.Close()
		}
	}
	if db, err = sqlite3.Open(uri); err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	if err = errors.Join(db.BusyTimeout(patience), db.Exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = "+s.Journal)); err != nil {
		return nil, nil, errors.Join(err, db.Close(), leave())
	}
	return db, func() error { return errors.Join(db.Close(), leave()) }, nil
}

// logOn connects to the server at Peer by the transport Via.
func (s *side) logOn(ctx context.Context) (*lwio.Client, error) {
	cfg := &lwio.Config{SMBOnly: s.Via == lwio.TransportSMB, RequireRDMA: s.Via != lwio.TransportSMB}
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == s.Via {
			cfg.Providers = []rdma.Provider{p}
		}
	}
	if cfg.RequireRDMA && cfg.Providers == nil {
		return nil, fmt.Errorf("there is no transport %q", s.Via)
	}
	return lwio.Dial(ctx, s.Peer, cfg)
}

// askedLocks locks a range of the file and unlocks it, by the transport Via. The file is in use there before.
func (s *side) askedLocks() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := s.logOn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := c.OpenFile(ctx, s.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
		return err
	}
	s.Flight = 1
	return s.servedPhases(func(int) error {
		r := lwio.Range{Len: 1}
		if err := f.TryLock(ctx, r, lwio.LockExclusive); err != nil {
			return err
		}
		return f.Unlock(ctx, r)
	})
}

// localLocks is askedLocks for a local file, by fcntl.
func (s *side) localLocks() error {
	f, err := os.OpenFile(s.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	s.Flight = 1
	return s.servedPhases(func(int) error {
		for _, kind := range []int16{unix.F_WRLCK, unix.F_UNLCK} {
			if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Len: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

// servedPhases is phases for operations of Flight goroutines, with the time of the processor of the server. do gets the
// number of the goroutine.
func (s *side) servedPhases(do func(i int) error) error {
	var served time.Duration
	err := s.phases(func(ops int) error {
		before := host.ProcessCPU(s.ServerPID)
		err := s.divide(ops, do)
		served = host.ProcessCPU(s.ServerPID) - before
		return err
	})
	s.outcome.ServerCPU = served
	return err
}
