package survive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"lwio"
	"lwio/integration/internal/supervise"
	"lwio/sqlite"
)

// databaseCases are the journal modes, as the statements that choose them, with the transports of the
// writers. WAL without shared memory has one writer.
var databaseCases = []struct {
	mode, pragma string
	transports   []string
}{
	{"DELETE", "PRAGMA journal_mode = DELETE", []string{"shm", "iwarp"}},
	{"TRUNCATE", "PRAGMA journal_mode = TRUNCATE", []string{"iwarp", lwio.TransportSMB}},
	{"PERSIST", "PRAGMA journal_mode = PERSIST", []string{lwio.TransportSMB, "shm"}},
	{"WAL", "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL", []string{"shm"}},
}

// busyTime bounds the wait for the lock of another writer.
const busyTime = 10 * time.Second

// writer makes transactions in a database.
type writer struct {
	srv                *supervise.Server
	record             *transactions
	number             int
	transport, db      string
	pragma, fileSystem string
	lossless           bool // no transaction may fail, but for the lock of another writer
	took               *durations

	wires
	connected atomic.Bool // once
	next      int
}

// run makes transactions until stop ends. An error is a wrong state of the database, or a failure of a lossless
// writer.
func (w *writer) run(stop context.Context) error {
	for stop.Err() == nil {
		err := w.session(stop)
		if errors.Is(err, context.Canceled) || stop.Err() != nil && !w.lossless {
			return nil
		}
		if errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) || err != nil && w.lossless {
			return fmt.Errorf("writer %d over %s: %w", w.number, w.transport, err)
		}
		if err != nil {
			select {
			case <-stop.Done():
			case <-time.After(retry):
			}
		}
	}
	return nil
}

// session connects and makes transactions until one fails.
func (w *writer) session(stop context.Context) (err error) {
	ready := w.srv.Times().Ready
	c, err := lwio.Dial(stop, w.srv.URL(""), w.config(w.transport))
	if err != nil {
		return err
	}
	defer func() {
		if e := c.Close(); err == nil {
			err = e
		}
	}()
	w.connected.Store(true)
	if err := sqlite.Register(w.fileSystem, c); err != nil {
		return err
	}
	defer sqlite.Unregister(w.fileSystem)
	db, err := sqlite3.Open("file:" + w.db + "?vfs=" + w.fileSystem)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := errors.Join(db.BusyTimeout(busyTime), db.Exec(w.pragma+"; PRAGMA synchronous = FULL; "+schema)); err != nil {
		return err
	}
	for first := true; stop.Err() == nil; first = false {
		w.next++
		x := transaction{w.number, w.next}
		err := w.record.do(db, x, rand.IntN(5) == 0, rand.IntN(4000))
		if err != nil && !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if at := w.srv.Times(); err == nil && first && !at.Killed.IsZero() && at.Ready.Equal(ready) {
			w.took.add("first transaction after the server listens", time.Since(at.Ready))
		}
	}
	return nil
}

// database is a database with its writers.
type database struct {
	name    string
	record  *transactions
	stop    context.CancelFunc
	over    sync.WaitGroup
	failed  chan error
	writers []*writer
}

// startDatabase starts a writer for each transport.
func startDatabase(s *supervise.Server, name, pragma string, lossless bool, took *durations, transports []string) *database {
	d := &database{name: name, record: new(transactions), failed: make(chan error, len(transports))}
	var stop context.Context
	stop, d.stop = context.WithCancel(context.Background())
	for i, transport := range transports {
		w := &writer{
			srv: s, record: d.record, number: i, transport: transport, db: name, pragma: pragma, lossless: lossless,
			fileSystem: fmt.Sprintf("%s-%d", name, i), took: took,
		}
		d.writers = append(d.writers, w)
		d.over.Go(func() {
			if err := w.run(stop); err != nil {
				d.failed <- err
			}
		})
	}
	return d
}

// progress waits until n more transactions are acknowledged.
func (d *database) progress(n int) error {
	want := d.record.count(acknowledged) + n
	for end := time.Now().Add(time.Minute); d.record.count(acknowledged) < want; time.Sleep(time.Millisecond) {
		select {
		case err := <-d.failed:
			return err
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: no progress", d.name)
		}
	}
	return nil
}

// end ends the writers and returns the first error.
func (d *database) end() error {
	d.stop()
	d.over.Wait()
	select {
	case err := <-d.failed:
		return err
	default:
		return nil
	}
}

// killsOfDatabase is the number of kills after which a new database begins, so that checks stay short.
const killsOfDatabase = 20

// TestTransactionsOutliveKills kills the server while SQLite writes to it, in each journal mode. After each kill
// the database is sound, has every acknowledged transaction whole, and none that was rolled back.
func TestTransactionsOutliveKills(t *testing.T) {
	t.Run("without state", func(t *testing.T) { killUnderDatabases(t, false) })
	t.Run("with state", func(t *testing.T) { killUnderDatabases(t, true) })
}

// killUnderDatabases is TestTransactionsOutliveKills for a server with or without state. With it, SQLite sees no
// error.
func killUnderDatabases(t *testing.T, state bool) {
	for _, c := range databaseCases {
		t.Run(c.mode, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, stateFlags(t, state)...)
			took := new(durations)
			for left, i := (*kills+len(databaseCases)-1)/len(databaseCases), 0; left > 0; left, i = left-killsOfDatabase, i+1 {
				d := startDatabase(s, fmt.Sprintf("%s-%d.db", c.mode, i), c.pragma, state, took, c.transports)
				if err := errors.Join(d.kill(s, directory(dir), nil, min(left, killsOfDatabase)), d.end(), d.record.checkAtRest(directory(dir), d.name)); err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d transactions acknowledged, %d unknown, %d refused", d.name,
					d.record.count(acknowledged), d.record.count(inProgress), d.record.count(refused))
			}
			took.log(t)
			expectNothingLeft(t, s)
		})
	}
}

// kill kills the server a number of times, calls after, and checks the database each time.
func (d *database) kill(s *supervise.Server, files store, after func(), times int) error {
	for i := range times {
		if err := d.progress(1); err != nil {
			return err
		}
		time.Sleep(rand.N(mostDelay))
		if err := s.Kill(); err != nil {
			return err
		}
		if after != nil {
			after()
		}
		if err := d.record.checkAtRest(files, d.name); err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		if err := s.Start(); err != nil {
			return err
		}
	}
	return d.progress(1)
}

// TestTransactionsOutliveCuts cuts the connections of clients while SQLite writes through them, in each journal mode.
// No statement fails, no transaction is lost, and the locks of a transaction stay.
//
// Source: [OP-42], [OP-112]
func TestTransactionsOutliveCuts(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for _, c := range databaseCases {
		t.Run(c.mode, func(t *testing.T) {
			d := startDatabase(s, fmt.Sprintf("cut-%s.db", c.mode), c.pragma, true, new(durations), c.transports)
			for _, w := range d.writers {
				for !w.connected.Load() && len(d.failed) == 0 {
					time.Sleep(retry)
				}
			}
			err := d.progress(1)
			for i := 0; i < *kills && err == nil; i++ {
				time.Sleep(rand.N(mostDelay))
				cuts[rand.IntN(len(cuts))].do(&d.writers[rand.IntN(len(d.writers))].wires)
				err = d.progress(1)
			}
			if err := errors.Join(err, d.end(), d.record.checkAtRest(directory(dir), d.name)); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d transactions acknowledged, %d refused", d.record.count(acknowledged), d.record.count(refused))
			if n := d.record.count(inProgress); n > 0 {
				t.Errorf("%d transactions have no outcome", n)
			}
		})
	}
	expectNothingLeft(t, s)
}
