package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
	"lwio/internal/ntstatus"
)

// The time limits of one call of SQLite. Within callTime a change is repeated, and an open waits for
// another client to finish the delete of the file.
const (
	callTime = time.Minute
	pause    = 5 * time.Millisecond
)

// naming serializes changes of the names of file systems.
var naming sync.Mutex

// Register gives SQLite the files of a client's share under the name of a file system, until
// Unregister. The caller closes the client after the databases.
//
// Errors: fs.ErrExist if there is a file system of that name; fs.ErrInvalid for the name of the file
// system of the operating system.
func Register(name string, c *lwio.Client) error {
	_, err := register(name, c)
	return err
}

func register(name string, c *lwio.Client) (*share, error) {
	naming.Lock()
	defer naming.Unlock()
	switch {
	case name == "" || name == "os":
		return nil, fmt.Errorf("sqlite: register %q: %w", name, fs.ErrInvalid)
	case vfs.Find(name) != nil:
		return nil, fmt.Errorf("sqlite: register %s: %w", name, fs.ErrExist)
	}
	s := &share{c: c, name: name, open: make(map[*file]struct{})}
	vfs.Register(name, s)
	return s, nil
}

// Unregister removes a file system of this package. While databases of it are open, the name stays until
// the last one is closed: SQLite needs it to find their journals.
func Unregister(name string) {
	if s, ok := vfs.Find(name).(*share); ok {
		_ = s.retire() // the caller owns the client
	}
}

// share is the file system of one client. Safe for concurrent use.
type share struct {
	c        *lwio.Client
	name     string
	repeated atomic.Uint64 // changes made again
	// interrupts returns the context that ends the calls of the only connection; nil if the share may have several.
	interrupts func() context.Context

	mu      sync.Mutex // guards the following
	open    map[*file]struct{}
	retired bool // the last file to be closed ends the share
	// ended is called at the end of the share; nil if nothing is to do.
	ended func() error
}

var _ vfs.VFSFilename = (*share)(nil)

// retire ends the share, now or when its last file is closed. A second call changes nothing.
func (s *share) retire() error {
	s.mu.Lock()
	over := !s.retired && len(s.open) == 0
	s.retired = true
	s.mu.Unlock()
	if over {
		return s.end()
	}
	return nil
}

// forget takes a closed file from the open ones.
func (s *share) forget(f *file) error {
	s.mu.Lock()
	_, had := s.open[f]
	delete(s.open, f)
	over := had && s.retired && len(s.open) == 0
	s.mu.Unlock()
	if over {
		return s.end()
	}
	return nil
}

// end removes the name of the share.
func (s *share) end() error {
	naming.Lock()
	vfs.Unregister(s.name)
	naming.Unlock()
	if s.ended != nil {
		return s.ended()
	}
	return nil
}

// databaseOf returns the open database that a name belongs to, as its journal, its log or itself. It returns nil if there
// is none, or if several connections have it open: SQLite does not say which of them it asks for.
func (s *share) databaseOf(name string) (only *file) {
	base := baseOf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.open {
		if f.database != f || f.name != base && f.name != name {
			continue
		}
		if only != nil {
			return nil
		}
		only = f
	}
	return only
}

// baseOf returns the name of the database of a journal or a log.
func baseOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "-journal"), "-wal")
}

// failed records the error of a call that names no open file as the cause of a failure of the database
// that the file belongs to.
func (s *share) failed(name string, err error) {
	base := baseOf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.open {
		if f.database == f && (f.name == base || f.name == name) {
			f.cause = err
		}
	}
}

// nameOf is the name of a file of the share, for the client.
func nameOf(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// FullPathname returns the name that SQLite compares, and to which it appends "-journal" and "-wal".
func (s *share) FullPathname(name string) (string, error) { return path.Clean("/" + name), nil }

// Open opens a file without a Filename. SQLite calls OpenFilename.
func (s *share) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := s.openFile(name, flags, nil)
	if err != nil {
		return nil, flags, err
	}
	return f, flags, nil
}

// OpenFilename opens a database or a journal. A file without a name is temporary, and local.
func (s *share) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name.String() == "" {
		return vfs.Find("os").(vfs.VFSFilename).OpenFilename(nil, flags)
	}
	var database *file
	if flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_WAL) != 0 {
		database = unwrapped(name.DatabaseFile())
	}
	f, flags, err := s.openFile(name.String(), flags, database)
	if err != nil {
		database.fail(err)
		return nil, flags, err
	}
	return f, flags, nil
}

// unwrapped returns a file of this package under the layers of others, or nil.
func unwrapped(f vfs.File) *file {
	for {
		switch g := f.(type) {
		case *file:
			return g
		case vfs.FileUnwrap:
			f = g.Unwrap()
		default:
			return nil
		}
	}
}

// openFile opens a file. A database that cannot be written is opened for reading, as on Unix.
func (s *share) openFile(name string, flags vfs.OpenFlag, database *file) (*file, vfs.OpenFlag, error) {
	parent := context.Background()
	if database == nil && s.interrupts != nil {
		parent = s.interrupts()
	}
	ctx, cancel := context.WithTimeout(parent, callTime)
	defer cancel()
	g, err := s.openPatiently(ctx, name, flags)
	if flags&vfs.OPEN_MAIN_DB != 0 && flags&vfs.OPEN_READWRITE != 0 && errors.Is(err, fs.ErrPermission) {
		readOnly := flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
		if h, e := s.openPatiently(ctx, name, readOnly); e == nil {
			g, err, flags = h, nil, readOnly
		}
	}
	if err != nil && parent.Err() != nil {
		return nil, flags, vfs.SystemError(err, sqlite3.INTERRUPT)
	}
	if err != nil {
		return nil, flags, openError(err, flags)
	}
	if err := database.keepsLock(ctx); err != nil {
		return nil, flags, vfs.SystemError(errors.Join(err, g.Close()), sqlite3.CANTOPEN)
	}
	f := &file{s: s, f: g, name: name, flags: flags, database: database, powersafe: true}
	if flags&vfs.OPEN_MAIN_DB != 0 {
		f.database = f
	}
	s.mu.Lock()
	s.open[f] = struct{}{}
	s.mu.Unlock()
	return f, flags, nil
}

// openPatiently opens a file of the share once no other client is about to delete it.
func (s *share) openPatiently(ctx context.Context, name string, flags vfs.OpenFlag) (f *lwio.File, err error) {
	how := os.O_RDWR
	if flags&vfs.OPEN_READONLY != 0 {
		how = os.O_RDONLY
	}
	if flags&vfs.OPEN_CREATE != 0 {
		how |= os.O_CREATE
	}
	if flags&vfs.OPEN_EXCLUSIVE != 0 {
		how |= os.O_EXCL
	}
	err = patiently(ctx, func() (err error) {
		f, err = s.c.OpenFile(ctx, nameOf(name), how, 0)
		return err
	})
	return f, err
}

// openError gives the error of an open the code of SQLite.
func openError(err error, flags vfs.OpenFlag) error {
	journal := flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_SUPER_JOURNAL|vfs.OPEN_WAL) != 0
	switch {
	case errors.Is(err, syscall.EISDIR):
		return vfs.SystemError(err, sqlite3.CANTOPEN_ISDIR)
	case errors.Is(err, syscall.ENOSPC):
		return vfs.SystemError(err, sqlite3.FULL)
	case journal && flags&vfs.OPEN_CREATE != 0 && errors.Is(err, fs.ErrPermission):
		return vfs.SystemError(err, sqlite3.READONLY_DIRECTORY)
	}
	return vfs.SystemError(err, sqlite3.CANTOPEN)
}

// patiently calls do again while another client has the file open and marked for deletion.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, ntstatus.DeletePending) && !errors.Is(err, ntstatus.SharingViolation) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Delete removes a file. With syncDir the removal is on stable storage when Delete returns. The journal of a database
// is removed only while the connection has its lock.
func (s *share) Delete(name string, syncDir bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	database := s.databaseOf(name)
	uncertain := false
	for {
		err := patiently(ctx, func() error {
			if err := database.keepsLock(ctx); err != nil {
				return err
			}
			return s.c.Remove(ctx, nameOf(name))
		})
		switch {
		case err == nil, uncertain && errors.Is(err, fs.ErrNotExist):
			return s.removed(ctx, name, syncDir)
		case errors.Is(err, fs.ErrNotExist):
			return vfs.SystemError(err, sqlite3.IOERR_DELETE_NOENT)
		case !errors.Is(err, lwio.ErrUncertain) || ctx.Err() != nil:
			s.failed(name, err)
			return vfs.SystemError(err, sqlite3.IOERR_DELETE)
		}
		uncertain = true
		s.repeated.Add(1)
	}
}

// removed ends the removal of a file: with syncDir its directory is synced.
func (s *share) removed(ctx context.Context, name string, syncDir bool) error {
	if !syncDir {
		return nil
	}
	if err := s.c.SyncDir(ctx, nameOf(path.Dir(name))); err != nil {
		s.failed(name, err)
		return vfs.SystemError(err, sqlite3.IOERR_DIR_FSYNC)
	}
	return nil
}

// Access reports whether a file exists and is not empty, as SQLite's file system for Unix does, or
// whether it can be used. An interrupt of the connection that has the database of the file open ends it, unless several
// connections have.
func (s *share) Access(name string, flags vfs.AccessFlag) (bool, error) {
	database := s.databaseOf(name)
	ctx, cancel := database.interruptible()
	defer cancel()
	info, err := s.c.Stat(ctx, nameOf(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && database != nil:
		return false, database.refused(err, sqlite3.IOERR_ACCESS)
	case err != nil:
		s.failed(name, err)
		return false, vfs.SystemError(err, sqlite3.IOERR_ACCESS)
	case flags == vfs.ACCESS_EXISTS:
		return info.IsDir() || info.Size() > 0, nil
	case flags == vfs.ACCESS_READWRITE:
		return info.Mode()&0o200 != 0, nil
	}
	return true, nil
}
