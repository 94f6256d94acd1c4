package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync/atomic"

	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"lwio"
)

// Open opens the database that an LWIO URL names, as
// lwio://user:password@host:port/share/path/app.db?_pragma=busy_timeout(10000). Nil and the zero value of cfg
// work. Parameters whose names begin with an underscore go to package github.com/ncruces/go-sqlite3/driver; cache,
// immutable, mode, nolock and psow go to SQLite, and the others to lwio.ParseURL.
//
// The first connection to the database connects to the server. All connections of the DB share one Client, which
// ends with the last of them after the DB is closed.
func Open(url string, cfg *lwio.Config) (*sql.DB, error) {
	c, err := NewConnector(url, cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// Driver is a driver of database/sql, for the data source names of [Open].
type Driver struct{}

var _ driver.DriverContext = Driver{}

// Open connects to a database. The Client ends with the connection.
func (Driver) Open(name string) (driver.Conn, error) {
	c, err := NewConnector(name, nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.Connect(context.Background())
	if e := c.Close(); e != nil && err == nil {
		return nil, errors.Join(e, conn.Close())
	}
	return conn, err
}

// OpenConnector parses a data source name. It does not connect.
func (Driver) OpenConnector(name string) (driver.Connector, error) { return NewConnector(name, nil) }

// connectors counts connectors, for the names of their file systems.
var connectors atomic.Uint64

// Connector connects to one database, for sql.OpenDB. Safe for concurrent use.
type Connector struct {
	target string // the URL of the client
	file   string // the path in the share
	query  string // the parameters of SQLite
	cfg    *lwio.Config

	turn   chan struct{} // has an element while a call uses the following
	share  *share        // nil before the first connection
	inner  driver.Connector
	closed bool
}

// NewConnector returns a connector for the URL of a database, see [Open]. The DB that uses the connector closes it.
//
// Errors: as lwio.ParseURL; an error for a URL without a path, and for a parameter vfs.
func NewConnector(raw string, cfg *lwio.Config) (*Connector, error) {
	base, query, _ := strings.Cut(raw, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("sqlite: the parameters of the URL are not of the form key=value")
	}
	ours, theirs := url.Values{}, url.Values{}
	for key, v := range values {
		if ofSQLite(key) {
			theirs[key] = v
		} else {
			ours[key] = v
		}
	}
	c := &Connector{target: base, turn: make(chan struct{}, 1)}
	if len(ours) > 0 {
		c.target += "?" + ours.Encode()
	}
	t, err := lwio.ParseURL(c.target)
	if err != nil {
		return nil, err
	}
	if t.Path == "" {
		return nil, fmt.Errorf("sqlite: %s names no file of the share", t)
	}
	if cfg != nil {
		copied := *cfg
		c.cfg = &copied
	}
	c.file, c.query = "/"+t.Path, theirs.Encode()
	return c, nil
}

// ofSQLite reports whether a parameter of a URL is one of SQLite, not of the client.
func ofSQLite(key string) bool {
	switch key {
	case "cache", "immutable", "mode", "nolock", "psow":
		return true
	}
	return strings.HasPrefix(key, "_")
}

// Connect opens a connection to the database. The first one connects to the server within ctx.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, files, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	got, err := inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	of := got.(sqlitedriver.Conn)
	return &conn{of, got.(driver.ExecerContext), got.(driver.NamedValueChecker), files}, nil
}

// connect returns the connector of SQLite, and the file system for it.
func (c *Connector) connect(ctx context.Context) (driver.Connector, *share, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("sqlite: connect: %w", ctx.Err())
	}
	if c.closed {
		return nil, nil, fmt.Errorf("sqlite: connect: %w", fs.ErrClosed)
	}
	if c.share != nil {
		return c.inner, c.share, nil
	}
	client, err := lwio.Dial(ctx, c.target, c.cfg)
	if err != nil {
		return nil, nil, err
	}
	s, err := register(fmt.Sprint("lwio/sqlite-", connectors.Add(1)), client)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	s.owned = true
	query := "vfs=" + url.QueryEscape(s.name)
	if c.query != "" {
		query += "&" + c.query
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: c.file, RawQuery: query}
	inner, err := new(sqlitedriver.SQLite).OpenConnector(uri.String())
	if err != nil {
		return nil, nil, errors.Join(err, s.retire())
	}
	c.share, c.inner = s, inner
	return inner, s, nil
}

// Driver returns a Driver.
func (c *Connector) Driver() driver.Driver { return Driver{} }

// Close refuses further connections. The client is closed now, or with the last connection.
func (c *Connector) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	if c.share == nil {
		return nil
	}
	return c.share.retire()
}

// conn is a connection of go-sqlite3 that database/sql replaces when the server does not keep its files any more.
type conn struct {
	sqlitedriver.Conn
	driver.ExecerContext
	driver.NamedValueChecker
	s *share
}

var _ driver.Validator = (*conn)(nil)

// IsValid reports whether the server keeps the files of the connection, as far as the client knows.
func (c *conn) IsValid() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for f := range c.s.open {
		if f.dead && f.db == c.Raw() {
			return false
		}
	}
	return true
}
