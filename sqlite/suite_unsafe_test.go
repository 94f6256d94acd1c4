package sqlite

import (
	"context"
	"encoding/binary"
	"io/fs"
	"unsafe"

	sqlitewasm "github.com/ncruces/go-sqlite3-wasm/v6"
)

// The programs mptest and speedtest1 of SQLite are part of its module. The tests of go-sqlite3 run them by
// names that are internal to it; so do the tests here.

// module is the beginning of a module of SQLite with its memory.
type module struct {
	*sqlitewasm.Module
	memory *struct{ bytes []byte }
}

//go:linkname createWrapper github.com/ncruces/go-sqlite3.createWrapper
func createWrapper(ctx context.Context) (*module, error)

//go:linkname closeWrapper github.com/ncruces/go-sqlite3/internal/sqlite3_wrap.(*Wrapper).Close
func closeWrapper(m *module) error

// testLog is the interface of the log of these programs.
type testLog interface {
	Context() context.Context
	Logf(format string, args ...any)
}

//go:linkname suiteFiles github.com/ncruces/go-sqlite3/internal/testenv.FS
var suiteFiles fs.FS

//go:linkname suiteLog github.com/ncruces/go-sqlite3/internal/testenv.TB
var suiteLog testLog

//go:linkname suiteExit github.com/ncruces/go-sqlite3/internal/testenv.Exit
var suiteExit func(status int32)

//go:linkname suiteSystem github.com/ncruces/go-sqlite3/internal/testenv.System
var suiteSystem func(command string) int32

var _ unsafe.Pointer // for go:linkname

// arguments stores the arguments of a main function in the memory of the module, and returns their place.
func (m *module) arguments(args []string) int32 {
	at := m.Xsqlite3_malloc64(int64(4 * len(args)))
	for i, a := range args {
		s := m.Xsqlite3_malloc64(int64(len(a) + 1))
		copy(m.memory.bytes[s:], a+"\x00")
		binary.LittleEndian.PutUint32(m.memory.bytes[int(at)+4*i:], uint32(s))
	}
	return at
}
