package resident

import (
	"log/slog"
	"runtime/debug"
	"time"

	"lwio/internal/fault"
)

// What is kept, and when.
const (
	// ChunkSize is what is promoted at a time, in bytes.
	ChunkSize = 2 << 20
	// MaxRead is up to how many bytes Bytes gives.
	MaxRead = 64 << 10
	// CountedRead is up to how many bytes a read may have to count for a promotion: with
	// longer ones there is little to gain.
	CountedRead = 16 << 10
	// DefaultThreshold is how many of them make a chunk hot, if they come within HotTime.
	DefaultThreshold = 128
	HotTime          = 4 * time.Second
	// SweepEvery is how often is looked for what is not used any more. What was not for one
	// such time makes room for other chunks, for IdleSweeps of them it is unlocked.
	SweepEvery = 10 * time.Second
	IdleSweeps = 4
	// LeaveAlone is how long nothing of a file is promoted that lost locked pages.
	LeaveAlone = 5 * time.Minute
)

// Config is what New needs. The zero value is the default.
type Config struct {
	// Budget bounds the memory that is locked, in bytes. 0 means DefaultBudget(); less is
	// none: nothing is kept.
	Budget int64
	// Threshold is how many short reads make a chunk hot. 0 means DefaultThreshold.
	Threshold int
	// Logger hears once that no more memory can be locked; nil is silent.
	Logger *slog.Logger
}

// Stats are counters since the start, and what there is now.
type Stats struct {
	// Bytes are locked now, of Budget that may be.
	Bytes, Budget int64
	// Reads were given bytes in memory.
	Reads uint64
	// Promotions and Demotions of chunks; Refused are the promotions that the system
	// refused memory for.
	Promotions, Demotions, Refused uint64
}

// Key says which file it is, on this host: its device and its number there.
type Key struct{ Device, Number uint64 }

// Copy copies src to dst, which is as long. It is false, and what is in dst undefined, if
// any of it is not there any more: src may be bytes of a View whose file became shorter, and
// dst memory that somebody else can take away.
func Copy(dst, src []byte) (ok bool) {
	old := debug.SetPanicOnFault(true)
	defer func() { ok = !fault.Caught(old, recover()) }()
	copy(dst, src)
	return true
}
