// Package driver registers package lwio/sqlite with database/sql, under the name "lwio".
//
//	import _ "lwio/sqlite/driver"
//
//	db, err := sql.Open("lwio", "lwio://alice@db1:4450/data/app.db?_pragma=busy_timeout(10000)")
//
// Function Open of package lwio/sqlite describes the data source name, and needs no registration.
package driver

import (
	"database/sql"

	"lwio/sqlite"
)

func init() { sql.Register("lwio", sqlite.Driver{}) } // as each driver of database/sql does
