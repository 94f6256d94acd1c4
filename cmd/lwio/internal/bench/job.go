package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Pattern is the order and direction of the operations.
type Pattern string

// The patterns, by fio's names.
const (
	RandRead  Pattern = "randread"
	RandWrite Pattern = "randwrite"
	SeqRead   Pattern = "read"
	SeqWrite  Pattern = "write"
)

// Writes tells whether the operations are writes.
func (p Pattern) Writes() bool { return p == RandWrite || p == SeqWrite }

// random tells whether the offsets are.
func (p Pattern) random() bool { return p == RandRead || p == RandWrite }

// Job is what to measure.
type Job struct {
	Pattern Pattern
	// BlockSize is the size of one operation, FileSize that of the file, in bytes.
	BlockSize int
	FileSize  int64
	// Depth is the number of operations in flight of each of Jobs connections.
	Depth, Jobs int
	// Runtime is how long operations are begun; each connection begins one at least.
	Runtime time.Duration
	// Verify checks every byte read, and reads back what was written.
	Verify bool
	// CRC is what there is to say of iWARP's CRCs: on, off.
	CRC string
}

// verifiesWrites tells whether to read back what was written.
func (j *Job) verifiesWrites() bool { return j.Verify && j.Pattern.Writes() }

// Limits of a job.
const (
	maxBlock = 64 << 20
	maxDepth = 4096
	maxJobs  = 1024
)

// Check tells what is wrong with a job.
func (j *Job) Check() error {
	switch j.Pattern {
	case RandRead, RandWrite, SeqRead, SeqWrite:
	default:
		return fmt.Errorf("--rw %s: it is one of %s, %s, %s, %s", j.Pattern, RandRead, RandWrite, SeqRead, SeqWrite)
	}
	switch {
	case j.BlockSize < 1 || j.BlockSize > maxBlock:
		return fmt.Errorf("--bs: a block has 1 byte to %s", FormatSize(maxBlock))
	case j.Depth < 1 || j.Depth > maxDepth:
		return fmt.Errorf("--iodepth: it is 1 to %d", maxDepth)
	case j.Jobs < 1 || j.Jobs > maxJobs:
		return fmt.Errorf("--numjobs: it is 1 to %d", maxJobs)
	case j.Runtime <= 0:
		return errors.New("--runtime: it must be more than 0")
	case j.FileSize < int64(j.BlockSize):
		return fmt.Errorf("a file of %s has no block of %s", FormatSize(j.FileSize), FormatSize(int64(j.BlockSize)))
	case j.Verify && j.BlockSize%wordSize != 0:
		return fmt.Errorf("--verify: blocks must be multiples of %d bytes", wordSize)
	}
	return nil
}

// ParseSize reads a size in bytes as fio writes it: 4k, 64KiB, 1m, 1g. The units
// are powers of 1024.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(s), "kmgtib")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.ToLower(s[len(digits):])]
	if err != nil || !ok || n <= 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is no size, such as 4k or 1m", s)
	}
	return n << shift, nil
}

// FormatSize is what ParseSize reads.
func FormatSize(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "t"}, {30, "g"}, {20, "m"}, {10, "k"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
