package ratelimit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logger returns a text logger whose lines have no time.
func logger(w *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Source: [LWIO §Connection Authentication] (the limit is ours)
func TestLogWritesOneLineOfAKindPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		var l Log
		log := logger(&b)
		for range 3 {
			for i := range 1000 {
				l.Warn(log, "cut", "peer", i)
				l.Warn(log.With("x", 1), "refused")
			}
			time.Sleep(LogInterval)
		}
		l.Warn(log, "cut", "peer", "last")
		time.Sleep(LogInterval)
		l.Warn(log, "cut")
		want := `level=WARN msg=cut peer=0
level=WARN msg=refused x=1
level=WARN msg=cut peer=0 suppressed=999
level=WARN msg=refused x=1 suppressed=999
level=WARN msg=cut peer=0 suppressed=999
level=WARN msg=refused x=1 suppressed=999
level=WARN msg=cut peer=last suppressed=999
level=WARN msg=cut
`
		if b.String() != want {
			t.Errorf("logged\n%swant\n%s", b.String(), want)
		}
	})
}

// The arguments of the caller are not written to, and concurrent lines are all counted.
func TestLogCountsConcurrentLinesAndKeepsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		var l Log
		log := logger(&b)
		args := make([]any, 2, 4)
		args[0], args[1] = "k", "v"
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { l.Warn(log, "cut", args...) })
		}
		wg.Wait()
		time.Sleep(LogInterval)
		l.Warn(log, "cut", args...)
		if strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), "suppressed=49") {
			t.Errorf("logged\n%s", b.String())
		}
		if args[:4][2] != nil {
			t.Error("the caller's slice was written to")
		}
	})
}
