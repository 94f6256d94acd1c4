package sqlite

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

var commits = flag.Int("commits", 200, "commits of each of two writers")

// Two clients commit to one database at once. None fails, none is lost, and each goes on while the other does.
func TestWritersOnTwoClients(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	for mode, transports := range map[string][]string{"DELETE": {"shm", "iwarp"}, "PERSIST": {"iwarp", lwio.TransportSMB}} {
		t.Run(mode, func(t *testing.T) {
			var over sync.WaitGroup
			var dbs []*sqlite3.Conn
			for _, transport := range transports {
				_, files := client(t, s, transport, nil)
				dbs = append(dbs, open(t, mode+".db", files, modes[mode]))
			}
			if err := dbs[0].Exec("CREATE TABLE t (writer INTEGER, n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			for i, db := range dbs {
				over.Go(func() {
					for n := range *commits {
						if err := db.Exec(fmt.Sprintf("INSERT INTO t VALUES (%d, %d)", i, n)); err != nil {
							t.Errorf("writer %d, commit %d: %v", i, n, err)
							return
						}
					}
				})
			}
			over.Wait()
			mustQuery(t, dbs[0], "SELECT count(*), count(DISTINCT writer), count(DISTINCT n) FROM t", fmt.Sprint(2**commits, 2, *commits))
			mustQuery(t, dbs[1], "PRAGMA integrity_check", "ok")
		})
	}
}

// Random statements give the same results on a share and on a local file: rows, and refusals.
func TestRandomStatementsMatchALocalDatabase(t *testing.T) {
	const steps = 400
	s := lwiotest.NewServer(t, nil)
	for i, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			random := rand.New(rand.NewPCG(15, uint64(i)))
			_, files := client(t, s, transport, nil)
			here, there := open(t, filepath.Join(t.TempDir(), "db"), "os", ""), open(t, transport+".db", files, "")
			for _, db := range []*sqlite3.Conn{here, there} {
				if err := db.Exec("PRAGMA cache_size = 10; CREATE TABLE t (id INTEGER PRIMARY KEY, d BLOB UNIQUE); CREATE INDEX x ON t (length(d))"); err != nil {
					t.Fatal(err)
				}
			}
			for step := range steps {
				sql := statement(random)
				a, b := here.Exec(sql), there.Exec(sql)
				var codeA, codeB sqlite3.ErrorCode
				if errors.As(a, &codeA); errors.As(b, &codeB) && codeA != codeB || (a == nil) != (b == nil) {
					t.Fatalf("step %d, %s: %v here, %v there", step, sql, a, b)
				}
				if step%20 != 0 {
					continue
				}
				want, err := query(here, "SELECT id, length(d), hex(substr(d, 1, 9)) FROM t ORDER BY id")
				got, e := query(there, "SELECT id, length(d), hex(substr(d, 1, 9)) FROM t ORDER BY id")
				if err != nil || e != nil || got != want {
					t.Fatalf("step %d: other rows after %s: %v, %v", step, sql, err, e)
				}
			}
			_ = there.Exec("COMMIT") // if a transaction is open
			mustQuery(t, there, "PRAGMA integrity_check", "ok")
		})
	}
}

// statement returns a random statement, which may be wrong in the state of the database.
func statement(random *rand.Rand) string {
	id, size := random.IntN(60), random.IntN(9000)
	blob := fmt.Sprintf("zeroblob(%d) || x'%08x'", size, random.Uint32N(200))
	choices := []string{
		fmt.Sprintf("INSERT INTO t VALUES (%d, %s)", id, blob),
		fmt.Sprintf("REPLACE INTO t VALUES (%d, %s)", id, blob),
		fmt.Sprintf("UPDATE t SET d = %s WHERE id = %d", blob, id),
		fmt.Sprintf("DELETE FROM t WHERE id %% 7 = %d", random.IntN(7)),
		fmt.Sprintf("INSERT INTO t SELECT id + 100, d || x'%08x' FROM t WHERE id < %d", random.Uint32N(200), id),
		"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "VACUUM",
		"PRAGMA journal_mode = " + []string{"DELETE", "TRUNCATE", "PERSIST", "MEMORY"}[random.IntN(4)],
	}
	return choices[random.IntN(len(choices))]
}

// A log that several connections would share is refused, and the error says why.
func TestSharedLogIsRefused(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	_, files := client(t, s, "shm", nil)
	db := open(t, "db", files, modes["DELETE"])
	if err := db.Exec("PRAGMA journal_mode = WAL"); err == nil || !strings.Contains(err.Error(), ErrSharedWAL.Error()) {
		t.Errorf("WAL without exclusive locking: %v", err)
	}
	mustQuery(t, db, "PRAGMA journal_mode", "delete")
	if err := db.Exec(modes["WAL"] + "; CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	mustQuery(t, db, "PRAGMA journal_mode", "wal")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db, err := sqlite3.Open("file:db?vfs=" + files)
	check(t, err)
	defer db.Close()
	if _, err := query(db, "SELECT * FROM t"); !errors.Is(err, sqlite3.CANTOPEN) || !errors.Is(err, ErrSharedWAL) {
		t.Errorf("a database in WAL without exclusive locking: %v", err)
	}
	if err := db.Exec("PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES (1); PRAGMA journal_mode = DELETE"); err != nil {
		t.Error(err)
	}
}

// A lost message of SMB fails no transaction, whether the server has seen it or not.
func TestLossesOfSMBFailNoTransaction(t *testing.T) {
	const transactions = 12
	for _, mode := range []string{"DELETE", "TRUNCATE", "PERSIST", "WAL"} {
		for _, fate := range []faultconn.Fate{faultconn.LoseRequest, faultconn.LoseResponse} {
			t.Run(fmt.Sprint(mode, "/", fate), func(t *testing.T) {
				s, link, n := lwiotest.NewServer(t, nil), new(faultconn.Link), 0
				_, files := client(t, s, []string{"shm", "iwarp", lwio.TransportSMB}[fate], func(cfg *lwio.Config) {
					cfg.DialContext, cfg.ReconnectTimeout = link.DialContext, busyTime
				})
				db := open(t, "db", files, modes[mode])
				if err := db.Exec("CREATE TABLE t (n INTEGER, d BLOB)"); err != nil {
					t.Fatal(err)
				}
				link.Judge(func(uint16) faultconn.Fate {
					if n++; n%13 == 0 {
						return fate
					}
					return faultconn.Pass
				})
				for i := range transactions {
					if err := db.Exec(fmt.Sprintf("BEGIN IMMEDIATE; INSERT INTO t VALUES (%d, randomblob(9000)); COMMIT", i)); err != nil {
						t.Fatalf("transaction %d: %v", i, err)
					}
				}
				link.Judge(nil)
				if mode != "WAL" && link.Breaks() == 0 {
					t.Error("no message was lost")
				}
				mustQuery(t, db, "SELECT count(*), sum(n) FROM t", fmt.Sprint(transactions, transactions*(transactions-1)/2))
				mustQuery(t, db, "PRAGMA integrity_check", "ok")
			})
		}
	}
}

// A program that deletes, replaces or cuts a database in use gets no more damage than its own: a change is refused, or
// the damage is found, and a new connection works with the file of the name.
func TestDatabaseIsChangedByAnotherProgram(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   []error
	}{
		"deleted": {func(t *testing.T, path string) { check(t, os.Remove(path)) }, []error{sqlite3.READONLY_DBMOVED}},
		"replaced": {func(t *testing.T, path string) {
			check(t, os.Rename(path, path+".old"))
			check(t, os.WriteFile(path, nil, 0o600))
		}, []error{sqlite3.READONLY_DBMOVED}},
		"cut":     {func(t *testing.T, path string) { check(t, os.Truncate(path, 5000)) }, []error{sqlite3.CORRUPT, sqlite3.NOTADB}},
		"emptied": {func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }, []error{sqlite3.ERROR}}, // no such table
		"overwritten": {func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 4000)), 0o600))
		}, []error{sqlite3.NOTADB, sqlite3.CORRUPT}},
	} {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			_, files := client(t, s, "shm", nil)
			db := open(t, "db", files, modes["DELETE"])
			check(t, db.Exec("PRAGMA cache_size = 2; CREATE TABLE t (d); "+many+"INSERT INTO t SELECT randomblob(900) FROM many"))
			c.change(t, filepath.Join(s.Dir, "db"))
			err := db.Exec("UPDATE t SET d = randomblob(900)")
			var found bool
			for _, want := range c.want {
				found = found || errors.Is(err, want)
			}
			if !found {
				t.Errorf("a change: %v", err)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "db-journal")); !errors.Is(err, fs.ErrNotExist) && name != "cut" {
				t.Errorf("a journal is left: %v", err)
			}
			check(t, db.Close())
			check(t, errors.Join(ignoreNotExist(os.Remove(filepath.Join(s.Dir, "db"))), ignoreNotExist(os.Remove(filepath.Join(s.Dir, "db-journal")))))
			again := open(t, "db", files, modes["DELETE"])
			check(t, again.Exec("CREATE TABLE t (d); INSERT INTO t VALUES (1)"))
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// A name is for one file system, and stays until its last database is closed.
func TestNameOfAFileSystem(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c := s.Client(nil)
	for _, name := range []string{"", "os"} {
		if err := Register(name, c); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	check(t, Register("once", c))
	if err := Register("once", c); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	db, err := sqlite3.Open("file:db?vfs=once")
	check(t, err)
	check(t, db.Exec("CREATE TABLE t (n)"))
	Unregister("once")
	check(t, db.Exec("INSERT INTO t VALUES (1)")) // needs the journal
	if vfs.Find("once") == nil {
		t.Error("the name of an open database is gone")
	}
	check(t, db.Close())
	if vfs.Find("once") != nil {
		t.Error("the name is left")
	}
	Unregister("once")
}

// A share that cannot be written has databases that can be read.
func TestReadOnlyShare(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "db"), "os", "PRAGMA journal_mode = DELETE")
	check(t, db.Exec("CREATE TABLE t (n); INSERT INTO t VALUES (7)"))
	s := lwiotest.NewServer(t, &lwiotest.Config{Dir: dir, ReadOnly: true})
	_, files := client(t, s, "iwarp", nil)
	db = open(t, "db", files, "")
	mustQuery(t, db, "SELECT n FROM t", "7")
	if err := db.Exec("INSERT INTO t VALUES (8)"); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("a change: %v", err)
	}
	if _, err := sqlite3.Open("file:missing?vfs=" + files); !errors.Is(err, sqlite3.CANTOPEN) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing database: %v", err)
	}
}

// A lock whose outcome was unknown is gone when the next transaction begins.
func TestUnknownLocksAreSettled(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	files, _ := client(t, s, "shm", nil)
	f, _, err := files.openFile("db", vfs.OPEN_READWRITE|vfs.OPEN_CREATE|vfs.OPEN_MAIN_DB, nil)
	check(t, err)
	g, _, err := files.openFile("db", vfs.OPEN_READWRITE|vfs.OPEN_MAIN_DB, nil)
	check(t, err)
	t.Cleanup(func() { check(t, errors.Join(f.Close(), g.Close())) })
	for _, r := range []lwio.Range{sharedRange, sharedRange, pendingByte} {
		check(t, f.f.TryLock(t.Context(), r, lwio.LockShared))
	}
	f.unsettled = true
	check(t, f.Lock(vfs.LOCK_SHARED))
	check(t, f.Unlock(vfs.LOCK_NONE))
	check(t, g.Lock(vfs.LOCK_SHARED))
	check(t, g.Lock(vfs.LOCK_EXCLUSIVE))
}

// Without a journal a database has the rows of its transactions.
func TestDatabaseWithoutAJournal(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	_, files := client(t, s, "iwarp", nil)
	db := open(t, "db", files, "PRAGMA journal_mode = OFF")
	check(t, db.Exec("CREATE TABLE t (d); "+many+"INSERT INTO t SELECT randomblob(900) FROM many"))
	mustQuery(t, db, "PRAGMA journal_mode", "off")
	local := open(t, filepath.Join(s.Dir, "db"), "os", "PRAGMA journal_mode = OFF")
	mustQuery(t, local, "SELECT count(*), sum(length(d)) FROM t", "600 540000")
	mustQuery(t, local, "PRAGMA integrity_check", "ok")
}
