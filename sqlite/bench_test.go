package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
)

// onEachStore runs a benchmark on a local file and over each transport, in one process.
func onEachStore(b *testing.B, prepare string, run func(b *testing.B, db *sqlite3.Conn)) {
	s := lwiotest.NewServer(b, nil)
	for _, store := range append([]string{"local"}, transports...) {
		b.Run(store, func(b *testing.B) {
			uri := "file:" + filepath.Join(b.TempDir(), "db")
			if store != "local" {
				name := fmt.Sprint("bench-", clients.Add(1))
				cfg := &lwio.Config{SMBOnly: store == lwio.TransportSMB}
				for _, p := range lwio.DefaultProviders() {
					if p.Name() == store {
						cfg.Providers = []rdma.Provider{p}
					}
				}
				if err := Register(name, s.Client(cfg)); err != nil {
					b.Fatal(err)
				}
				defer Unregister(name)
				uri = "file:" + name + ".db?vfs=" + name
			}
			db, err := sqlite3.Open(uri)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, d BLOB); PRAGMA synchronous = FULL; " + prepare); err != nil {
				b.Fatal(err)
			}
			run(b, db)
		})
	}
}

// BenchmarkSelect reads one row of 1000, in a transaction of its own.
func BenchmarkSelect(b *testing.B) {
	rows := "WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < 1000) INSERT INTO t SELECT i, randomblob(100) FROM many"
	onEachStore(b, rows, func(b *testing.B, db *sqlite3.Conn) {
		q, _, err := db.Prepare("SELECT d FROM t WHERE id = ?")
		if err != nil {
			b.Fatal(err)
		}
		defer q.Close()
		for n := 0; b.Loop(); n++ {
			if err := q.BindInt(1, 1+n*7919%1000); err != nil || !q.Step() || q.Reset() != nil {
				b.Fatal(err, q.Err())
			}
		}
	})
}

// BenchmarkCommit inserts one row in a transaction of its own.
func BenchmarkCommit(b *testing.B) {
	for _, mode := range []string{"DELETE", "PERSIST"} {
		b.Run(mode, func(b *testing.B) {
			onEachStore(b, modes[mode], func(b *testing.B, db *sqlite3.Conn) {
				for b.Loop() {
					if err := db.Exec("INSERT INTO t (d) VALUES (randomblob(100))"); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
