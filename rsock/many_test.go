package rsock

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
)

// TestManyConnectionsLeakNothing dials, accepts and closes repeatedly: memory and descriptors
// do not grow.
func TestManyConnectionsLeakNothing(t *testing.T) {
	rounds, at := 10_000, 8
	if testing.Short() || raceEnabled {
		rounds = 400
	}
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		d := &Dialer{Config: with(provider())}
		accepting := make(chan struct{})
		var serving sync.WaitGroup
		go func() {
			defer close(accepting)
			for {
				c, err := l.AcceptConn()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer c.Close()
					var b [1]byte
					if _, err := c.Read(b[:]); err == nil {
						_, _ = c.Write(b[:])
					}
				})
			}
		}()
		run := func(n int) {
			var wg sync.WaitGroup
			for range at {
				wg.Go(func() {
					for range n / at {
						if err := once(t, d, l); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			serving.Wait() // until all dialed connections are closed
			if err := errors.Join(d.Drain(t.Context()), l.Drain(t.Context())); err != nil {
				t.Error(err)
			}
		}
		run(rounds / 4)
		before := footprint()
		run(rounds - rounds/4)
		// Timers and goroutines of closed connections may still hold memory and descriptors.
		after := footprint()
		fits := func() bool { return after.heap <= before.heap+4<<20 && after.files <= before.files+8*at }
		for end := time.Now().Add(2 * patience); !fits() && time.Now().Before(end); after = footprint() {
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("%d connections: heap %d KiB, then %d; descriptors %d, then %d", rounds,
			before.heap>>10, after.heap>>10, before.files, after.files)
		if !fits() {
			t.Errorf("memory or descriptors stay: heap %d bytes, then %d; descriptors %d, then %d",
				before.heap, after.heap, before.files, after.files)
		}
		l.Close()
		<-accepting
	})
}

// once makes a connection and sends a byte in both directions.
func once(t *testing.T, d *Dialer, l *Listener) error {
	c, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if !c.Transport().RDMA() {
		t.Errorf("transport %v", c.Transport())
	}
	b := []byte{42}
	if _, err = c.Write(b); err == nil {
		_, err = c.Read(b)
	}
	return err
}

// usage is the resources of the process.
type usage struct {
	heap  uint64 // bytes in use after a collection
	files int
}

func footprint() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{heap: m.HeapAlloc}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(entries)
	}
	return u
}
