package rsock

import (
	"errors"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"lwio/rdma"
)

// TestReadTimeoutAllocatesOnce reads after the deadline: the error is an error of package
// net, and is allocated only once.
func TestReadTimeoutAllocatesOnce(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, provider().Name())
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		_, err := c.Read(buf)
		var op *net.OpError
		if !errors.As(err, &op) || !op.Timeout() || op.Op != "read" || op.Net != provider().Name() ||
			op.Source != c.LocalAddr() || op.Addr != c.RemoteAddr() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %#v", err)
		}
		n := 1.0
		for i := 0; i < 10 && n >= 1; i++ { // other goroutines sometimes allocate too
			n = testing.AllocsPerRun(100, func() { _, _ = c.Read(buf) })
		}
		if n >= 1 && !raceEnabled {
			t.Errorf("a Read after the deadline allocates %v times", n)
		}
	})
}

// TestLingerOfLargeSeconds converts more seconds than a time.Duration holds.
func TestLingerOfLargeSeconds(t *testing.T) {
	for sec, ok := range map[int]func(time.Duration) bool{
		math.MinInt: func(d time.Duration) bool { return d < 0 },
		-1:          func(d time.Duration) bool { return d < 0 },
		0:           func(d time.Duration) bool { return d == 0 },
		60:          func(d time.Duration) bool { return d == time.Minute },
		math.MaxInt: func(d time.Duration) bool { return d > 24*365*time.Hour },
	} {
		if d := lingerOf(sec); !ok(d) {
			t.Errorf("%d s are %v", sec, d)
		}
	}
}
