package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

// database opens a database by its URL, and closes it with the test.
func database(t *testing.T, s *lwiotest.Server, path string, cfg *lwio.Config) *sql.DB {
	t.Helper()
	db, err := Open(s.URL()+path, cfg)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

// A URL names the server, the file, and the parameters of client and SQLite. All connections of a DB work at once.
func TestDatabaseOfAURL(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			db := database(t, s, "/a %23 name of "+transport+".db?provider="+transport+"&_pragma=busy_timeout(60000)&_txlock=immediate", nil)
			if _, err := db.Exec("CREATE TABLE t (n INTEGER)"); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "a # name of "+transport+".db")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A DB of several connections counts to their number of transactions.
func TestConnectionsOfADB(t *testing.T) {
	const connections, transactions = 4, 10
	s := lwiotest.NewServer(t, nil)
	db := database(t, s, "/count.db?_pragma=busy_timeout(60000)&_pragma=journal_mode(persist)&_txlock=immediate", nil)
	_, err := db.Exec("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)")
	check(t, err)
	var over sync.WaitGroup
	for range connections {
		over.Go(func() {
			for range transactions {
				if err := count(t.Context(), db); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over.Wait()
	var n int
	if err := db.QueryRow("SELECT n FROM t").Scan(&n); err != nil || n != connections*transactions {
		t.Errorf("%d, %v", n, err)
	}
	conn, err := db.Conn(t.Context())
	check(t, err)
	check(t, conn.Raw(func(c any) error {
		_, err := query(c.(sqlitedriver.Conn).Raw(), "SELECT 1")
		return err
	}))
	check(t, conn.Close())
}

// count adds one in a transaction.
func count(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM t").Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE t SET n = ?", n+1); err != nil {
		return err
	}
	return tx.Commit()
}

// A URL that names no database is refused before a connection, without its password.
func TestURLOfNoDatabase(t *testing.T) {
	for _, url := range []string{
		"lwio://u:secret@h/share", "http://u:secret@h/share/db", "lwio://u:secret@h/share/db?vfs=os", "lwio://u:secret@h/share/db?unknown=1",
		"lwio://u:secret@h/share/db?_pragma=%zz", "app.db", "",
	} {
		if _, err := Open(url, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := (Driver{}).Open("lwio://u:secret@127.0.0.1:1/share/db"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

// A connection outlives its DB and its connector. The last one ends the client, which the leak check of the package
// confirms.
func TestConnectionOutlivesItsConnector(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c, err := Driver{}.Open(s.URL() + "/one.db")
	check(t, err)
	db := c.(sqlitedriver.Conn).Raw()
	check(t, db.Exec("CREATE TABLE t (n); INSERT INTO t VALUES (1)"))
	check(t, c.Close())

	connector, err := NewConnector(s.URL()+"/one.db", nil)
	check(t, err)
	check(t, connector.Close())
	if _, err := connector.Connect(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed connector: %v", err)
	}
}

// A DB goes on after the server has given up its files: a connection with a stale file is replaced.
func TestStaleConnectionIsReplaced(t *testing.T) {
	s, link := lwiotest.NewServer(t, &lwiotest.Config{DurableTimeout: 20 * time.Millisecond}), new(faultconn.Link)
	db := database(t, s, "/stale.db", &lwio.Config{DialContext: link.DialContext, ReconnectTimeout: busyTime})
	_, err := db.Exec("CREATE TABLE t (n); INSERT INTO t VALUES (1)")
	check(t, err)
	link.Down()
	awaitNoFiles(t, s)
	link.Up()
	if _, err := db.Exec("INSERT INTO t VALUES (2)"); !errors.Is(err, lwio.ErrStale) || !errors.Is(err, sqlite3.IOERR) {
		t.Errorf("a stale connection: %v", err)
	}
	if _, err := db.Exec("INSERT INTO t VALUES (3)"); err != nil {
		t.Errorf("the next connection: %v", err)
	}
	var n int
	if err := db.QueryRow("SELECT sum(n) FROM t").Scan(&n); err != nil || n != 4 {
		t.Errorf("%d, %v", n, err)
	}
}

// The end of a context ends its query, which waits for a server that does not answer, and the open of a connection. It
// ends no query of another connection. The query waits for a lock over SMB, and with RDMA, which goes on, for the answer
// whether there is a journal.
func TestContextEndsAQueryWithoutAServer(t *testing.T) {
	for name, only := range map[string]bool{"smb": true, "rdma": false} {
		t.Run(name, func(t *testing.T) {
			s, link := lwiotest.NewServer(t, nil), new(faultconn.Link)
			db := database(t, s, "/query.db", &lwio.Config{SMBOnly: only, DialContext: link.DialContext, ReconnectTimeout: busyTime, Timeout: busyTime})
			_, err := db.Exec("CREATE TABLE t (n); INSERT INTO t VALUES (1)")
			check(t, err)
			var conns [2]*sql.Conn
			for i := range conns {
				conns[i], err = db.Conn(t.Context())
				check(t, err)
				defer conns[i].Close()
				check(t, conns[i].QueryRowContext(t.Context(), "SELECT n FROM t").Scan(new(int)))
			}
			link.Down()
			waits := make(chan error, 1)
			go func() { waits <- conns[1].QueryRowContext(t.Context(), "SELECT n FROM t").Scan(new(int)) }()
			for _, from := range []interface {
				QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
			}{conns[0], db} {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := from.QueryRowContext(ctx, "SELECT n FROM t").Scan(new(int)); err == nil || ctx.Err() == nil {
					t.Errorf("%T: %v, %v", from, err, ctx.Err())
				}
			}
			link.Up()
			if err := <-waits; err != nil {
				t.Errorf("a query of another connection: %v", err)
			}
			var n int
			for _, from := range conns {
				if err := from.QueryRowContext(t.Context(), "SELECT n FROM t").Scan(&n); err != nil || n != 1 {
					t.Errorf("after the return of the server: %d, %v", n, err)
				}
			}
		})
	}
}

// busy_timeout bounds the wait for a lock: none fails at once, and a long one waits for the end of the lock.
func TestBusyTimeout(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	holder := database(t, s, "/busy.db", nil)
	_, err := holder.Exec("CREATE TABLE t (n)")
	check(t, err)
	tx, err := holder.Begin()
	check(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (1)")
	check(t, err)
	hasty := database(t, s, "/busy.db?_pragma=busy_timeout(0)", nil)
	if _, err := hasty.Exec("INSERT INTO t VALUES (2)"); !errors.Is(err, sqlite3.BUSY) {
		t.Errorf("without a timeout: %v", err)
	}
	patient := database(t, s, fmt.Sprintf("/busy.db?_pragma=busy_timeout(%d)", busyTime.Milliseconds()), nil)
	check(t, patient.Ping())
	done := make(chan error)
	go func() {
		_, err := patient.Exec("INSERT INTO t VALUES (3)")
		done <- err
	}()
	check(t, tx.Commit())
	check(t, <-done)
}

// A transaction whose connection the server has given up is not reported as done, and its journal rolls it back:
// the next connection, of another client here, finds the rows of before, in a sound database.
func TestTransactionOfAStaleConnectionIsRolledBack(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			s, link := lwiotest.NewServer(t, &lwiotest.Config{DurableTimeout: 20 * time.Millisecond}), new(faultconn.Link)
			_, files := client(t, s, transport, func(cfg *lwio.Config) {
				cfg.DialContext, cfg.ReconnectTimeout = link.DialContext, busyTime
			})
			db := open(t, "db", files, "PRAGMA journal_mode = DELETE")
			check(t, db.Exec("PRAGMA cache_size = 5; CREATE TABLE t (n INTEGER, d BLOB); "+many+"INSERT INTO t SELECT i, zeroblob(900) FROM many"))
			check(t, db.Exec("BEGIN IMMEDIATE; UPDATE t SET n = n + 1, d = randomblob(900)")) // writes pages before the commit
			link.Down()
			awaitNoFiles(t, s)
			link.Up()
			if err := db.Exec("COMMIT"); !errors.Is(err, lwio.ErrStale) || !errors.Is(err, sqlite3.IOERR) {
				t.Errorf("the commit: %v", err)
			}
			_, others := client(t, s, lwio.TransportSMB, nil)
			other := open(t, "db", others, "PRAGMA journal_mode = DELETE")
			mustQuery(t, other, "SELECT count(*), sum(n), sum(d = zeroblob(900)) FROM t", "600 180300 600")
			mustQuery(t, other, "PRAGMA integrity_check", "ok")
			check(t, other.Exec("UPDATE t SET n = 0"))
		})
	}
}

// awaitNoFiles waits until the server has closed the files of its clients.
func awaitNoFiles(t *testing.T, s *lwiotest.Server) {
	t.Helper()
	for end := time.Now().Add(busyTime); ; time.Sleep(time.Millisecond) {
		if st := s.Server.Stats(); st.SMBConnections+st.Suspended+st.Orphans+st.Files == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server keeps the files")
		}
	}
}
