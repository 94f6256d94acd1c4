package lwio_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/skip"
	"lwio/lwiotest"
)

// benchFile is a file of size bytes on each via.
func benchFile(b *testing.B, size int, run func(b *testing.B, f *lwio.File)) {
	for _, via := range transports() {
		b.Run(via.name, func(b *testing.B) {
			s := lwiotest.NewServer(b, nil)
			f, err := s.Client(&via.cfg).Create(b.Context(), "f")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(random(size, 1), 0); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b, f)
		})
	}
}

// BenchmarkStat describes a file by its name.
func BenchmarkStat(b *testing.B) {
	for _, via := range transports() {
		b.Run(via.name, func(b *testing.B) {
			s := lwiotest.NewServer(b, nil)
			c := s.Client(&via.cfg)
			if err := c.WriteFile(b.Context(), "f", []byte("content")); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Stat(b.Context(), "f"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead has one random read of 4 KiB in flight.
func BenchmarkRead(b *testing.B) {
	const size, bs = 64 << 20, 4096
	benchFile(b, size, func(b *testing.B, f *lwio.File) {
		b.SetBytes(bs)
		r := rand.New(rand.NewPCG(1, 2))
		p := make([]byte, bs)
		for b.Loop() {
			if _, err := f.ReadAt(p, r.Int64N(size/bs)*bs); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRandomRead4K has 32 random reads of 4 KiB in flight.
func BenchmarkRandomRead4K(b *testing.B) {
	const size, depth, bs = 64 << 20, 32, 4096
	benchFile(b, size, func(b *testing.B, f *lwio.File) {
		b.SetBytes(bs)
		tickets := make(chan struct{}, depth)
		var wg sync.WaitGroup
		for i := range depth {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				p := make([]byte, bs)
				for range tickets {
					if _, err := f.ReadAt(p, r.Int64N(size/bs)*bs); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		for b.Loop() {
			tickets <- struct{}{}
		}
		close(tickets)
		wg.Wait()
	})
}

// BenchmarkBatch4K has 32 random reads of 4 KiB in flight from one goroutine, into
// registered memory.
func BenchmarkBatch4K(b *testing.B) {
	const size, depth, bs = 64 << 20, 32, 4096
	for _, via := range transports() {
		b.Run(via.name, func(b *testing.B) {
			c := lwiotest.NewServer(b, nil).Client(&via.cfg)
			f, err := c.Create(b.Context(), "f")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(random(size, 1), 0); err != nil {
				b.Fatal(err)
			}
			buf, err := c.Alloc(b.Context(), depth*bs)
			if err != nil {
				b.Fatal(err)
			}
			defer buf.Close()
			r := rand.New(rand.NewPCG(1, 2))
			batch := c.NewBatch(depth)
			defer batch.Close()
			read := func(i uint64) {
				if err := batch.ReadAt(f, buf.Bytes()[i*bs:][:bs], r.Int64N(size/bs)*bs, i); err != nil {
					b.Fatal(err)
				}
			}
			for i := range uint64(depth) {
				read(i)
			}
			b.ReportAllocs()
			b.SetBytes(bs)
			b.ResetTimer()
			for left := b.N; left > 0; {
				list, err := batch.Wait(b.Context(), 1)
				if err != nil {
					b.Fatal(err)
				}
				left -= len(list)
				for _, d := range list {
					if d.Err != nil {
						b.Fatal(d.Err)
					}
					read(d.Tag)
				}
			}
		})
	}
}

func BenchmarkSequential1M(b *testing.B) {
	const size, bs = 64 << 20, 1 << 20
	p := make([]byte, bs)
	for name, do := range map[string]func(f *lwio.File, off int64) (int, error){
		"read":  func(f *lwio.File, off int64) (int, error) { return f.ReadAt(p, off) },
		"write": func(f *lwio.File, off int64) (int, error) { return f.WriteAt(p, off) },
	} {
		b.Run(name, func(b *testing.B) {
			benchFile(b, size, func(b *testing.B, f *lwio.File) {
				b.SetBytes(bs)
				for i := int64(0); b.Loop(); i++ {
					if _, err := do(f, i*bs%size); err != nil && err != io.EOF { //nolint:errorlint // the contract says bare
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// allocations is how many a call of f makes, of server and client together. It looks again
// while that is more than most: another goroutine may have been at work, too.
func allocations(most float64, f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for tries := 0; least > most && tries < 50; tries++ {
		least = min(least, testing.AllocsPerRun(20, f))
	}
	return least
}

// A call makes few allocations, and the same number for every size.
func TestCallsAllocateWithinLimits(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector allocates")
	}
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		if !c.Transport().RDMA() {
			return // SMB allocates its messages
		}
		put(t, c, "f", random(1<<20, 1))
		f, err := c.OpenFile(t.Context(), "f", 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, size := range []int{512, 4096, 64 << 10, 512 << 10} {
			p := make([]byte, size)
			most := float64(maxAllocs)
			if strings.HasSuffix(t.Name(), "polling") {
				most = maxAllocsPolling
			}
			read := allocations(most, func() {
				if _, err := f.ReadAt(p, 0); err != nil {
					t.Fatal(err)
				}
			})
			write := allocations(most, func() {
				if _, err := f.WriteAt(p, 0); err != nil {
					t.Fatal(err)
				}
			})
			// Both sides of the connection are in this process.
			t.Logf("%d bytes, allocations: %v a read, %v a write", size, read, write)
			if read > most || write > most {
				t.Errorf("%d bytes: more than %v", size, most)
			}
		}
	})
}

// The limits are for client and server together. While allocations are counted there
// is one processor, so that a poller falls asleep each time, which costs some more.
const (
	maxAllocs        = 4
	maxAllocsPolling = 8
)

// BenchmarkLockPair locks and unlocks a range, beside two reads of 4 KiB in turns of the same run. The metric ratio is the
// time of a pair over that of two reads.
func BenchmarkLockPair(b *testing.B) {
	const size, bs, turn = 64 << 20, 4096, 200
	benchFile(b, size, func(b *testing.B, f *lwio.File) {
		random := rand.New(rand.NewPCG(1, 2))
		p, r := make([]byte, bs), lwio.Range{Off: 1 << 30, Len: 1}
		var pairs, reads time.Duration
		for b.Loop() {
			began := time.Now()
			for range turn {
				if err := errors.Join(f.Lock(b.Context(), r, lwio.LockExclusive), f.Unlock(b.Context(), r)); err != nil {
					b.Fatal(err)
				}
			}
			middle := time.Now()
			for range 2 * turn {
				if _, err := f.ReadAt(p, random.Int64N(size/bs)*bs); err != nil {
					b.Fatal(err)
				}
			}
			pairs, reads = pairs+middle.Sub(began), reads+time.Since(middle)
		}
		b.ReportMetric(float64(pairs.Nanoseconds())/float64(b.N*turn), "ns/pair")
		b.ReportMetric(float64(reads.Nanoseconds())/float64(b.N*turn), "ns/2reads")
		b.ReportMetric(float64(pairs)/float64(reads), "ratio")
	})
}
