package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pattern is the order and direction of the operations.
type Pattern string

// The patterns, by fio's names.
const (
	RandRead  Pattern = "randread"
	RandWrite Pattern = "randwrite"
	RandMixed Pattern = "randrw"
	SeqRead   Pattern = "read"
	SeqWrite  Pattern = "write"
	SeqMixed  Pattern = "rw"
)

// patterns are all patterns.
var patterns = []Pattern{RandRead, RandWrite, RandMixed, SeqRead, SeqWrite, SeqMixed}

// Reads reports whether some operations are reads, Writes whether some are writes.
func (p Pattern) Reads() bool { return p != RandWrite && p != SeqWrite }

// Writes reports whether some operations are writes.
func (p Pattern) Writes() bool { return p != RandRead && p != SeqRead }

// mixed reports whether some operations are reads and some are writes.
func (p Pattern) mixed() bool { return p.Reads() && p.Writes() }

// random reports whether the offsets are random.
func (p Pattern) random() bool { return p == RandRead || p == RandWrite || p == RandMixed }

// Engine is the interface by which operations are submitted.
type Engine string

// The engines.
const (
	// EngineAuto is EngineBatch over RDMA with several operations in flight, else EngineSync.
	EngineAuto Engine = ""
	// EngineBatch keeps the operations of a connection in flight from one goroutine.
	EngineBatch Engine = "batch"
	// EngineSync makes blocking calls, each operation in flight from a goroutine of its own.
	EngineSync Engine = "sync"
	// EngineVec makes one vectored call for as many contiguous blocks as are in flight.
	EngineVec Engine = "vec"
)

// engines are the engines that a user may choose.
var engines = []Engine{EngineBatch, EngineSync, EngineVec}

// Job describes the load to measure.
type Job struct {
	Pattern Pattern
	// ReadPercent is the share of reads of a mixed pattern, 0 to 100.
	ReadPercent int
	// BlockSize is the size of one operation, FileSize the size of the file, in bytes.
	BlockSize int
	FileSize  int64
	// Depth is the number of operations in flight of each of Jobs connections.
	Depth, Jobs int
	Engine      Engine
	// BatchComplete is how many completions EngineBatch waits for at a time; 0 means 1. If
	// it equals Depth, all operations are submitted together and awaited together.
	BatchComplete int
	// Ramp is the time that the load runs before it is measured. Runtime is the time in
	// which operations are begun; each connection begins at least one.
	Ramp, Runtime time.Duration
	// Verify checks every byte read, and reads back the written blocks.
	Verify bool
	// Untimed omits the latencies, whose clock readings cost as much as a tenth of a local read.
	Untimed bool
	// CRC describes the CRCs of iWARP: on, off.
	CRC string
}

// verifiesWrites reports whether the written blocks are read back.
func (j *Job) verifiesWrites() bool { return j.Verify && j.Pattern.Writes() }

// width is the number of blocks of one call.
func (j *Job) width() int64 {
	if j.Engine == EngineVec {
		return int64(j.Depth)
	}
	return 1
}

// Limits of a job.
const (
	maxBlock = 64 << 20
	maxDepth = 4096
	maxJobs  = 1024
)

// Check returns the first mistake of a job, with the name of the flag.
func (j *Job) Check() error {
	switch {
	case !slices.Contains(patterns, j.Pattern):
		return fmt.Errorf("--rw %s: it is one of %s", j.Pattern, list(patterns))
	case j.Engine != EngineAuto && !slices.Contains(engines, j.Engine):
		return fmt.Errorf("--ioengine %s: it is one of %s", j.Engine, list(engines))
	case j.ReadPercent < 0 || j.ReadPercent > 100:
		return errors.New("--rwmixread: it is 0 to 100")
	case j.BlockSize < 1 || j.BlockSize > maxBlock:
		return fmt.Errorf("--bs: a block has 1 byte to %s", FormatSize(maxBlock))
	case j.Depth < 1 || j.Depth > maxDepth:
		return fmt.Errorf("--iodepth: it is 1 to %d", maxDepth)
	case j.BatchComplete < 0 || j.BatchComplete > j.Depth:
		return errors.New("--iodepth-batch-complete: it is at most --iodepth")
	case j.Jobs < 1 || j.Jobs > maxJobs:
		return fmt.Errorf("--numjobs: it is 1 to %d", maxJobs)
	case j.Runtime <= 0:
		return errors.New("--runtime: it must be more than 0")
	case j.Ramp < 0:
		return errors.New("--ramp-time: it must not be negative")
	case j.FileSize < j.width()*int64(j.BlockSize):
		return fmt.Errorf("a file of %s has no %d blocks of %s", FormatSize(j.FileSize), j.width(), FormatSize(int64(j.BlockSize)))
	case j.Verify && j.BlockSize%wordSize != 0:
		return fmt.Errorf("--verify: blocks must be multiples of %d bytes", wordSize)
	}
	return nil
}

// list joins names for a message.
func list[T ~string](names []T) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}
