// Command sqlite keeps notes in an SQLite database. The database is a file of an LWIO share, or a local one: the
// program differs only by the names of the driver and of the database.
//
//	go run . lwio://alice@db1:4450/data/notes.db add 'buy milk'
//	go run . lwio://alice@db1:4450/data/notes.db list
//	go run . notes.db list
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver" // "sqlite3", for local files
	_ "lwio/sqlite/driver"                   // "lwio", for files of a share
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sqlite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) < 2 {
		return errors.New("usage: sqlite URL|FILE add TEXT | list")
	}
	driver := "sqlite3"
	if strings.HasPrefix(args[0], "lwio://") {
		driver = "lwio"
	}
	db, err := sql.Open(driver, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"); err != nil {
		return err
	}
	switch {
	case len(args) == 3 && args[1] == "add":
		_, err := db.ExecContext(ctx, "INSERT INTO notes (text) VALUES (?)", args[2])
		return err
	case len(args) == 2 && args[1] == "list":
		return list(ctx, db, out)
	}
	return fmt.Errorf("%s is neither add nor list", args[1])
}

// list prints all notes.
func list(ctx context.Context, db *sql.DB, out io.Writer) error {
	rows, err := db.QueryContext(ctx, "SELECT id, text FROM notes ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, id, text); err != nil {
			return err
		}
	}
	return rows.Err()
}
