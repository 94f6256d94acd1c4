package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/internal/test/leakcheck"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	lwiovfs "lwio/vfs"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// modes are the journal modes, as the statements that choose them.
var modes = map[string]string{
	"DELETE":   "PRAGMA journal_mode = DELETE",
	"TRUNCATE": "PRAGMA journal_mode = TRUNCATE",
	"PERSIST":  "PRAGMA journal_mode = PERSIST",
	"MEMORY":   "PRAGMA journal_mode = MEMORY",
	"WAL":      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL",
}

// transports are the transports of clients.
var transports = []string{"shm", "iwarp", lwio.TransportSMB}

// busyTime bounds the wait for the lock of another connection.
const busyTime = time.Minute

var clients atomic.Uint64 // names of file systems

// client connects to a server by a transport and registers the client as a file system. change may
// change the configuration.
func client(t *testing.T, s *lwiotest.Server, transport string, change func(cfg *lwio.Config)) (*share, string) {
	t.Helper()
	cfg := &lwio.Config{SMBOnly: transport == lwio.TransportSMB, RequireRDMA: transport != lwio.TransportSMB}
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == transport {
			cfg.Providers = []rdma.Provider{p}
		}
	}
	if change != nil {
		change(cfg)
	}
	name := fmt.Sprint("lwio-", clients.Add(1))
	files, err := register(name, s.Client(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Unregister(name) })
	return files, name
}

// open opens a database of a file system, and closes it with the test.
func open(t *testing.T, name, files, mode string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open("file:" + name + "?vfs=" + files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(db.BusyTimeout(busyTime), db.Exec(mode+"; PRAGMA synchronous = FULL")); err != nil {
		t.Fatal(err)
	}
	return db
}

// query returns the rows of a query as text.
func query(db *sqlite3.Conn, sql string) (string, error) {
	q, _, err := db.Prepare(sql)
	if err != nil {
		return "", err
	}
	defer q.Close()
	var rows strings.Builder
	for q.Step() {
		for i := range q.ColumnCount() {
			rows.WriteString(q.ColumnText(i) + " ")
		}
		rows.WriteByte('\n')
	}
	return rows.String(), q.Err()
}

func mustQuery(t *testing.T, db *sqlite3.Conn, sql, want string) {
	t.Helper()
	if got, err := query(db, sql); err != nil || strings.TrimSpace(got) != want {
		t.Errorf("%s: %q, %v; want %q", sql, got, err, want)
	}
}

// work are statements of many kinds, with transactions larger than the cache, in a form that leaves the same
// contents in every database.
var work = []string{
	"PRAGMA cache_size = 20",
	"CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)",
	"CREATE TABLE b (id INTEGER PRIMARY KEY, d BLOB)",
	"CREATE INDEX an ON a (n)",
	many + "INSERT INTO a SELECT i, i * 7919 % 1000, printf('row %d %.*c', i, i % 300, 'x') FROM many",
	"BEGIN; " + many + "INSERT INTO b SELECT i, zeroblob(i % 5000) FROM many; ROLLBACK",
	"BEGIN; " + many + "INSERT INTO b SELECT i, zeroblob(i % 5000) FROM many; COMMIT",
	"BEGIN; UPDATE a SET s = s || n WHERE n % 3 = 0; SAVEPOINT p; DELETE FROM a WHERE n < 500; ROLLBACK TO p; RELEASE p; COMMIT",
	"DELETE FROM b WHERE id % 2 = 0",
	"BEGIN; DROP INDEX an; CREATE UNIQUE INDEX an ON a (n, id); COMMIT",
	"VACUUM",
	many + "INSERT OR REPLACE INTO b SELECT i * 3, zeroblob(i % 7) FROM many",
	"REINDEX",
}

// many is a table of the first 600 numbers.
const many = "WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < 600) "

// dump has all contents.
const dump = "SELECT * FROM (SELECT 'a', id, n, s FROM a UNION ALL SELECT 'b', id, length(d), hex(d) FROM b) ORDER BY 1, 2"

// A database of a share has the contents of a local one after the same statements, in each journal mode, and
// also when it is opened again, by a local program.
func TestDatabaseIsLikeALocalOne(t *testing.T) {
	local := open(t, filepath.Join(t.TempDir(), "local.db"), "os", modes["DELETE"])
	for _, sql := range work {
		if err := local.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	want, err := query(local, dump)
	if err != nil {
		t.Fatal(err)
	}
	s := lwiotest.NewServer(t, nil)
	for _, transport := range transports {
		_, files := client(t, s, transport, nil)
		for mode, pragma := range modes {
			t.Run(transport+"/"+mode, func(t *testing.T) {
				name := transport + mode + ".db"
				t.Run("work", func(t *testing.T) {
					db := open(t, name, files, pragma)
					for _, sql := range work {
						if err := db.Exec(sql); err != nil {
							t.Fatalf("%s: %v", sql, err)
						}
					}
					mustQuery(t, db, "PRAGMA integrity_check", "ok")
					mustQuery(t, db, "PRAGMA journal_mode", strings.ToLower(mode))
				})
				for _, again := range []struct{ file, files string }{{name, files}, {filepath.Join(s.Dir, name), "os"}} {
					db := open(t, again.file, again.files, pragma)
					if got, err := query(db, dump); got != want || err != nil {
						t.Errorf("%s: other contents: %v", again.file, err)
					}
				}
			})
		}
	}
}

// Connections of several clients write to one database at the same time, each in its own table and in a common
// one. Each transaction is seen whole, and none is lost.
func TestClientsShareADatabase(t *testing.T) {
	const connections, transactions = 4, 25
	s := lwiotest.NewServer(t, nil)
	for _, mode := range []string{"DELETE", "TRUNCATE", "PERSIST"} {
		t.Run(mode, func(t *testing.T) {
			name := "shared" + mode + ".db"
			var dbs []*sqlite3.Conn
			for i := range connections {
				_, files := client(t, s, transports[i%len(transports)], nil)
				dbs = append(dbs, open(t, name, files, modes[mode]))
			}
			if err := dbs[0].Exec("CREATE TABLE total (n INTEGER); INSERT INTO total VALUES (0)"); err != nil {
				t.Fatal(err)
			}
			var over sync.WaitGroup
			for i, db := range dbs {
				over.Go(func() {
					if err := takeTurns(db, i, transactions); err != nil {
						t.Errorf("connection %d: %v", i, err)
					}
				})
			}
			over.Wait()
			mustQuery(t, dbs[1], "SELECT n FROM total", fmt.Sprint(connections*transactions))
			for i := range connections {
				mustQuery(t, dbs[2], fmt.Sprintf("SELECT count(*), sum(n) FROM t%d", i), fmt.Sprint(transactions, transactions*(transactions-1)/2))
			}
			mustQuery(t, dbs[0], "PRAGMA integrity_check", "ok")
		})
	}
}

// takeTurns makes transactions: writes, and reads that compare two tables.
func takeTurns(db *sqlite3.Conn, i, transactions int) error {
	if err := db.Exec(fmt.Sprintf("CREATE TABLE t%d (n INTEGER, d BLOB)", i)); err != nil {
		return err
	}
	for n := range transactions {
		err := db.Exec(fmt.Sprintf("BEGIN IMMEDIATE; UPDATE total SET n = n + 1; INSERT INTO t%d VALUES (%d, randomblob(%d)); COMMIT", i, n, n*100))
		if err != nil {
			return fmt.Errorf("transaction %d: %w", n, err)
		}
		got, err := query(db, fmt.Sprintf("SELECT (SELECT count(*) FROM t%d), (SELECT n FROM total) >= %d", i, n+1))
		if want := fmt.Sprint(n+1, " 1"); err != nil || strings.TrimSpace(got) != want {
			return fmt.Errorf("after transaction %d: %q, %w; want %s", n, got, err, want)
		}
	}
	return nil
}

// A reader that holds a shared lock makes a writer wait, and a writer that waits keeps new readers out.
func TestLockLevels(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	var f [3]*file
	for i := range f {
		files, _ := client(t, s, transports[i], nil)
		g, _, err := files.openFile("locks", vfs.OPEN_READWRITE|vfs.OPEN_CREATE|vfs.OPEN_MAIN_DB, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		f[i] = g
	}
	for i, step := range []struct {
		by    int
		do    func(f *file) error
		level vfs.LockLevel
		busy  bool
		after vfs.LockLevel
	}{
		{0, nil, vfs.LOCK_SHARED, false, vfs.LOCK_SHARED},
		{1, nil, vfs.LOCK_SHARED, false, vfs.LOCK_SHARED},
		{0, nil, vfs.LOCK_RESERVED, false, vfs.LOCK_RESERVED},
		{1, nil, vfs.LOCK_RESERVED, true, vfs.LOCK_SHARED},
		{2, nil, vfs.LOCK_SHARED, false, vfs.LOCK_SHARED}, // beside a reserved lock
		{0, nil, vfs.LOCK_EXCLUSIVE, true, vfs.LOCK_PENDING},
		{2, (*file).release, 0, false, vfs.LOCK_NONE},
		{2, nil, vfs.LOCK_SHARED, true, vfs.LOCK_NONE}, // a writer waits
		{1, (*file).release, 0, false, vfs.LOCK_NONE},
		{0, nil, vfs.LOCK_EXCLUSIVE, false, vfs.LOCK_EXCLUSIVE},
		{1, nil, vfs.LOCK_SHARED, true, vfs.LOCK_NONE},
		{0, func(f *file) error { return f.Unlock(vfs.LOCK_SHARED) }, 0, false, vfs.LOCK_SHARED},
		{1, nil, vfs.LOCK_SHARED, false, vfs.LOCK_SHARED},
		{1, nil, vfs.LOCK_RESERVED, false, vfs.LOCK_RESERVED},
		{0, (*file).release, 0, false, vfs.LOCK_NONE},
		{1, nil, vfs.LOCK_EXCLUSIVE, false, vfs.LOCK_EXCLUSIVE},
		{1, (*file).release, 0, false, vfs.LOCK_NONE},
	} {
		g := f[step.by]
		do := step.do
		if do == nil {
			do = func(f *file) error { return f.Lock(step.level) }
		}
		if err := do(g); errors.Is(err, sqlite3.BUSY) != step.busy || err != nil && !step.busy || g.LockState() != step.after {
			t.Fatalf("step %d: %v, level %d", i, err, g.LockState())
		}
		for j, g := range f {
			reserved, err := g.CheckReservedLock()
			want := f[0].level >= vfs.LOCK_RESERVED || f[1].level >= vfs.LOCK_RESERVED
			if err != nil || reserved != want {
				t.Fatalf("step %d: file %d says reserved %v, %v", i, j, reserved, err)
			}
		}
	}
	ctx := context.Background()
	if err := f[2].f.TryLock(ctx, lwio.Range{Len: 1 << 40}, lwio.LockExclusive); err != nil {
		t.Errorf("a lock is left: %v", err)
	}
}

// release ends all locks.
func (f *file) release() error { return f.Unlock(vfs.LOCK_NONE) }

// syncedDir is a backend that counts the syncs of its directories.
type syncedDir struct {
	lwiovfs.Backend
	syncs *atomic.Int64
}

func (d syncedDir) Open(path string, how lwiovfs.HandleMode) (lwiovfs.Handle, error) {
	h, err := d.Backend.Open(path, how)
	if err != nil || !how.Dir {
		return h, err
	}
	return countedSync{h, d.syncs}, nil
}

type countedSync struct {
	lwiovfs.Handle
	syncs *atomic.Int64
}

func (h countedSync) Sync() error {
	h.syncs.Add(1)
	return h.Handle.Sync()
}

// The removal of a journal syncs its directory if SQLite asks for it.
func TestDeleteIsDurable(t *testing.T) {
	dir, syncs := t.TempDir(), new(atomic.Int64)
	disk, err := posix.OpenDir(dir)
	check(t, err)
	files, _ := client(t, lwiotest.NewServer(t, &lwiotest.Config{Backend: syncedDir{disk, syncs}}), "shm", nil)
	for _, sync := range []bool{true, false} {
		check(t, os.WriteFile(filepath.Join(dir, "journal"), []byte("old"), 0o600))
		if ok, err := files.Access("/journal", vfs.ACCESS_EXISTS); !ok || err != nil {
			t.Errorf("access before: %v, %v", ok, err)
		}
		check(t, files.Delete("/journal", sync))
		if n := syncs.Swap(0); n != 0 != sync {
			t.Errorf("%d syncs of the directory, asked for: %v", n, sync)
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, "journal"), nil, 0o600))
	if ok, err := files.Access("journal", vfs.ACCESS_EXISTS); ok || err != nil {
		t.Errorf("access to an empty journal: %v, %v", ok, err)
	}
	check(t, files.Delete("journal", false))
	var missing sqlite3.ExtendedErrorCode
	if err := files.Delete("journal", true); err == nil || errors.As(err, &missing) {
		t.Errorf("a second delete: %v", err)
	}
}

// A connection whose lock the server has lost neither opens nor removes the journal, which may be one of another
// connection.
func TestJournalBelongsToTheLock(t *testing.T) {
	const journal = "a.db-journal"
	s, link := lwiotest.NewServer(t, &lwiotest.Config{DurableTimeout: 20 * time.Millisecond}), new(faultconn.Link)
	files, _ := client(t, s, lwio.TransportSMB, func(cfg *lwio.Config) {
		cfg.DialContext, cfg.ReconnectTimeout = link.DialContext, busyTime
	})
	db, _, err := files.openFile("/a.db", vfs.OPEN_READWRITE|vfs.OPEN_CREATE|vfs.OPEN_MAIN_DB, nil)
	check(t, err)
	defer db.Close()
	check(t, db.Lock(vfs.LOCK_SHARED))
	check(t, db.Lock(vfs.LOCK_RESERVED))
	open := func() error {
		f, _, err := files.openFile("/"+journal, vfs.OPEN_READWRITE|vfs.OPEN_CREATE|vfs.OPEN_MAIN_JOURNAL, db)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	check(t, open())
	check(t, files.Delete("/"+journal, false))
	link.Down()
	awaitNoFiles(t, s)
	link.Up()
	theirs := filepath.Join(s.Dir, journal)
	check(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
	if err := open(); err == nil {
		t.Error("the journal is opened")
	}
	if err := files.Delete("/"+journal, false); err == nil {
		t.Error("the journal is removed")
	}
	if got, err := os.ReadFile(theirs); err != nil || string(got) != "theirs" {
		t.Errorf("the journal of another connection: %q, %v", got, err)
	}
}

// RDMA connections break in the middle of transactions, and the outcome of writes becomes uncertain. They are made
// again under the lock of the transaction: SQLite sees no error, and no transaction is lost.
func TestUncertainWritesAreMadeAgain(t *testing.T) {
	const transactions = 60
	s := lwiotest.NewServer(t, nil)
	for _, mode := range []string{"DELETE", "TRUNCATE", "PERSIST", "WAL"} {
		t.Run(mode, func(t *testing.T) {
			var count atomic.Uint64
			files, name := client(t, s, "iwarp", func(cfg *lwio.Config) {
				cfg.RequireRDMA, cfg.ReconnectTimeout = false, 1 // at once
				cfg.Providers = []rdma.Provider{fault.Wrap(cfg.Providers[0], &fault.Config{Fault: func(a fault.Attempt) fault.Action {
					if a.N > 5 && count.Add(1)%7 == 0 {
						return fault.Cut()
					}
					return fault.Pass()
				}})}
			})
			db := open(t, "uncertain"+mode+".db", name, modes[mode])
			if err := db.Exec("CREATE TABLE t (n INTEGER, d BLOB)"); err != nil {
				t.Fatal(err)
			}
			for n := range transactions {
				sql := fmt.Sprintf("BEGIN IMMEDIATE; INSERT INTO t VALUES (%d, randomblob(%d)); COMMIT", n, rand.IntN(20_000))
				if err := db.Exec(sql); err != nil {
					t.Fatalf("transaction %d: %v", n, err)
				}
			}
			mustQuery(t, db, "SELECT count(*), sum(n) FROM t", fmt.Sprint(transactions, transactions*(transactions-1)/2))
			mustQuery(t, db, "PRAGMA integrity_check", "ok")
			t.Logf("%d connections lost, %d changes made again", files.c.Stats().Lost, files.repeated.Load())
		})
	}
}
