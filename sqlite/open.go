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

// connections counts the connections of all connectors, for the names of their file systems.
var connections atomic.Uint64

// sharedClient is the client of a connector and its connections. Safe for concurrent use.
type sharedClient struct {
	*lwio.Client
	users atomic.Int64
}

// release counts a user out. The last one closes the client.
func (c *sharedClient) release() error {
	if c.users.Add(-1) > 0 {
		return nil
	}
	return c.Close()
}

// Connector connects to one database, for sql.OpenDB. Safe for concurrent use.
type Connector struct {
	target string // the URL of the client
	file   string // the path in the share
	query  string // the parameters of SQLite
	cfg    *lwio.Config

	turn   chan struct{} // has an element while a call uses the following
	client *sharedClient // nil before the first connection
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
	client, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := register(fmt.Sprint("lwio/sqlite-", connections.Add(1)), client.Client)
	if err != nil {
		return nil, errors.Join(err, client.release())
	}
	s.ended = client.release
	s.interrupts = func() context.Context { return ctx }
	got, err := c.open(ctx, s)
	if e := s.retire(); e != nil && err == nil { // it ends with the last file of the connection
		err = errors.Join(e, got.Close())
	}
	if err != nil {
		return nil, err
	}
	of := got.(sqlitedriver.Conn)
	s.interrupts = of.Raw().GetInterrupt
	return &conn{of, got.(driver.ExecerContext), got.(driver.NamedValueChecker), s}, nil
}

// open opens a connection of SQLite with a file system of its own, so that the file system knows whose interrupts end its
// calls.
func (c *Connector) open(ctx context.Context, s *share) (driver.Conn, error) {
	query := "vfs=" + url.QueryEscape(s.name)
	if c.query != "" {
		query += "&" + c.query
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: c.file, RawQuery: query}
	inner, err := new(sqlitedriver.SQLite).OpenConnector(uri.String())
	if err != nil {
		return nil, err
	}
	return inner.Connect(ctx)
}

// dial returns the client, which the caller releases. The first call connects to the server.
func (c *Connector) dial(ctx context.Context) (*sharedClient, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("sqlite: connect: %w", ctx.Err())
	}
	if c.closed {
		return nil, fmt.Errorf("sqlite: connect: %w", fs.ErrClosed)
	}
	if c.client == nil {
		client, err := lwio.Dial(ctx, c.target, c.cfg)
		if err != nil {
			return nil, err
		}
		c.client = &sharedClient{Client: client}
		c.client.users.Store(1) // the connector
	}
	c.client.users.Add(1)
	return c.client, nil
}

// Driver returns a Driver.
func (c *Connector) Driver() driver.Driver { return Driver{} }

// Close refuses further connections. The client is closed now, or with the last connection.
func (c *Connector) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	first := !c.closed
	c.closed = true
	if c.client == nil || !first {
		return nil
	}
	return c.client.release()
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
