package sides

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	sqlitewasm "github.com/ncruces/go-sqlite3-wasm/v6"

	"lwio/internal/host"
)

// The program speedtest1 of SQLite is part of its module. The tests of go-sqlite3 run it by names that are internal to
// it; so do the tests of package sqlite, and this file.

// sqliteModule is the beginning of a module of SQLite with its memory.
type sqliteModule struct {
	*sqlitewasm.Module
	memory *struct{ bytes []byte }
}

//go:linkname createWrapper github.com/ncruces/go-sqlite3.createWrapper
func createWrapper(ctx context.Context) (*sqliteModule, error)

//go:linkname closeWrapper github.com/ncruces/go-sqlite3/internal/sqlite3_wrap.(*Wrapper).Close
func closeWrapper(m *sqliteModule) error

// programLog is the interface of the log of the programs.
type programLog interface {
	Context() context.Context
	Logf(format string, args ...any)
}

//go:linkname suiteLog github.com/ncruces/go-sqlite3/internal/testenv.TB
var suiteLog programLog

//go:linkname suiteExit github.com/ncruces/go-sqlite3/internal/testenv.Exit
var suiteExit func(status int32)

var _ unsafe.Pointer // for go:linkname

// arguments stores the arguments of a main function in the memory of the module, and returns their place.
func (m *sqliteModule) arguments(args []string) int32 {
	at := m.Xsqlite3_malloc64(int64(4 * len(args)))
	for i, a := range args {
		s := m.Xsqlite3_malloc64(int64(len(a) + 1))
		copy(m.memory.bytes[s:], a+"\x00")
		binary.LittleEndian.PutUint32(m.memory.bytes[int(at)+4*i:], uint32(s))
	}
	return at
}

// silent is a log that drops the lines of the program.
type silent struct{ ctx context.Context }

func (s silent) Context() context.Context { return s.ctx }
func (silent) Logf(string, ...any)        {}

// speedtest runs speedtest1 once, with Size as its size. It is one operation.
func (s *side) speedtest() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	args := []string{"speedtest1", "--size", strconv.Itoa(s.Size)}
	if s.Via != "" {
		const name = "figures-speedtest"
		_, end, e := s.openDatabase(ctx, name) // registers the file system
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, end()) }()
		args = append(args, "--vfs", name)
	}
	suiteLog, suiteExit = silent{ctx}, func(status int32) {
		fmt.Fprintln(os.Stderr, "speedtest1: status", status)
		os.Exit(1)
	}
	m, err := createWrapper(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWrapper(m)) }()
	args = append(args, s.To)
	cpu, served, start := host.CPUTime(), host.ProcessCPU(s.ServerPID), time.Now()
	status := m.Xmain_speedtest1(int32(len(args)), m.arguments(args))
	s.outcome = outcome{
		Ops: 1, Took: time.Since(start), CPU: host.CPUTime() - cpu, ServerCPU: host.ProcessCPU(s.ServerPID) - served,
	}
	s.outcome.P50 = s.outcome.Took
	if status != 0 {
		return fmt.Errorf("speedtest1: status %d", status)
	}
	return nil
}
