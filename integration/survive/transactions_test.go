package survive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// rowsOf is the number of rows of a transaction.
const rowsOf = 3

// outcome is the outcome of a transaction.
type outcome uint8

const (
	inProgress   outcome = iota // or unknown: the commit failed
	acknowledged                // the commit succeeded
	refused                     // rolled back, or failed before the commit
)

// transactions are the transactions of one database.
type transactions struct {
	mu   sync.Mutex // guards list
	list map[transaction]outcome
}

// transaction is a transaction of a writer.
type transaction struct{ writer, number int }

func (t *transactions) set(x transaction, to outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = make(map[transaction]outcome)
	}
	t.list[x] = to
}

// count returns the number of transactions with an outcome.
func (t *transactions) count(of outcome) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, is := range t.list {
		if is == of {
			n++
		}
	}
	return n
}

// schema is the table of the transactions. The sum of a row proves that it is whole.
const schema = "CREATE TABLE IF NOT EXISTS t (writer INTEGER, number INTEGER, row INTEGER, d BLOB, sum INTEGER)"

// do makes a transaction, or rolls it back, and records the outcome.
func (t *transactions) do(db *sqlite3.Conn, x transaction, rollback bool, size int) error {
	t.set(x, inProgress)
	err := db.Exec("BEGIN IMMEDIATE")
	for row := 0; row < rowsOf && err == nil; row++ {
		err = db.Exec(fmt.Sprintf(`INSERT INTO t SELECT %d, %d, %d, d, length(d) * 31 + %d FROM (SELECT randomblob(%d) AS d)`,
			x.writer, x.number, row, x.number*rowsOf+row, size))
	}
	if err == nil && !rollback {
		err = db.Exec("COMMIT")
		if err == nil {
			t.set(x, acknowledged)
			return nil
		}
		if !errors.Is(err, sqlite3.BUSY) {
			return err // it may be there
		}
	}
	if e := db.Exec("ROLLBACK"); err == nil {
		err = e
	}
	t.set(x, refused)
	return err
}

// check compares a database with the record: every acknowledged transaction is there, every transaction is whole
// or missing, and none is there that was refused.
func (t *transactions) check(db *sqlite3.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[transaction]bool)
	q, _, err := db.Prepare(`SELECT writer, number, count(*), sum(row), min(sum = length(d) * 31 + number * 3 + row)
		FROM t GROUP BY writer, number`)
	if err != nil {
		return err
	}
	defer q.Close()
	for q.Step() {
		x := transaction{q.ColumnInt(0), q.ColumnInt(1)}
		found[x] = true
		if of, ok := t.list[x]; !ok || of == refused {
			return fmt.Errorf("%+v was refused, or never made", x)
		}
		if q.ColumnInt(2) != rowsOf || q.ColumnInt(3) != rowsOf*(rowsOf-1)/2 || q.ColumnInt(4) != 1 {
			return fmt.Errorf("%+v has %d rows, whole %d", x, q.ColumnInt(2), q.ColumnInt(4))
		}
	}
	if err := q.Err(); err != nil {
		return err
	}
	for x, of := range t.list {
		if of == acknowledged && !found[x] {
			return fmt.Errorf("%+v was acknowledged, and is not there", x)
		}
	}
	return nil
}

// checkAtRest checks a copy of a database with its journal: a look at the files would end the journal.
func (t *transactions) checkAtRest(files store, name string) error {
	dir, err := os.MkdirTemp("", "lwio-survive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, suffix := range []string{"", "-journal", "-wal"} {
		b, err := files.get(name + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "db"+suffix), b, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	db, err := sqlite3.Open("file:" + filepath.Join(dir, "db"))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := integrity(db); err != nil {
		return err
	}
	return t.check(db)
}

// integrity has SQLite check a database.
func integrity(db *sqlite3.Conn) error {
	q, _, err := db.Prepare("PRAGMA integrity_check")
	if err != nil {
		return err
	}
	defer q.Close()
	var all []string
	for q.Step() {
		all = append(all, q.ColumnText(0))
	}
	if got := strings.Join(all, "; "); q.Err() != nil || got != "ok" {
		return fmt.Errorf("integrity_check: %s, %w", got, q.Err())
	}
	return nil
}
