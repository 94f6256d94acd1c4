package stream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomWritesAndReads writes on both sides at once with random sizes, some with a
// deadline, and reads with random sizes, until the half-close of each. Each side must read
// the bytes that its peer reports as written.
func TestRandomWritesAndReads(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		rapid.Check(t, func(rt *rapid.T) {
			var u setup
			for i, cfg := range []*Config{&u.active, &u.passive} {
				label := []string{"active ", "passive "}[i]
				cfg.NoRead = rapid.Bool().Draw(rt, label+"noRead")
				cfg.ReceiveBuffers = rapid.IntRange(minBuffers, 24).Draw(rt, label+"buffers")
				cfg.BufferSize = rapid.SampledFrom([]int{256, 300, 4096}).Draw(rt, label+"size")
				cfg.Threshold = rapid.SampledFrom([]int{1, 200, 4096, 30000, 1 << 30}).Draw(rt, label+"threshold")
				cfg.BusyPoll = rapid.SampledFrom([]time.Duration{0, 0, -1, time.Millisecond}).Draw(rt, label+"spin")
			}
			a, b := pair(t, f, u)
			defer closeBoth(a, b)
			sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 500), rapid.IntRange(1, 70000), rapid.IntRange(100000, 900000)), 0, 12)
			plans := [2][]int{sizes.Draw(rt, "active writes"), sizes.Draw(rt, "passive writes")}
			reads := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 300000)), 1, 6)
			takes := [2][]int{reads.Draw(rt, "active reads"), reads.Draw(rt, "passive reads")}
			hurried := rapid.Bool().Draw(rt, "deadlines")
			var wg sync.WaitGroup
			var wrote, read [2][]byte
			for i, s := range []*Stream{a, b} {
				wg.Go(func() { wrote[i] = playWrites(t, s, plans[i], hurried) })
				wg.Go(func() { read[i] = playReads(t, s, takes[i], hurried) })
			}
			wg.Wait()
			if hung.Load() {
				t.FailNow() // a smaller case would take as long
			}
			for i := range 2 {
				if !bytes.Equal(wrote[i], read[1-i]) {
					rt.Fatalf("side %d wrote %d bytes, and the other read %d", i, len(wrote[i]), len(read[1-i]))
				}
			}
		})
	})
}

// playWrites writes, returns the written bytes, and ends the stream.
func playWrites(t *testing.T, s *Stream, sizes []int, hurried bool) (all []byte) {
	for i, size := range sizes {
		p := pattern(size + i)
		if hurried && i%2 == 0 {
			_ = s.SetWriteDeadline(time.Now().Add(time.Duration(size%7) * 100 * time.Microsecond))
		}
		n, err := s.Write(p)
		all = append(all, p[:n]...)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || err == nil && n < len(p) {
			t.Errorf("write: %d of %d, %v", n, len(p), err)
		}
		_ = s.SetWriteDeadline(time.Time{})
	}
	if err := s.CloseWrite(); err != nil {
		t.Error(err)
	}
	return all
}

// playReads reads to the end.
func playReads(t *testing.T, s *Stream, sizes []int, hurried bool) (all []byte) {
	for i := 0; ; i++ {
		p := make([]byte, sizes[i%len(sizes)])
		if hurried && i%3 == 0 {
			_ = s.SetReadDeadline(time.Now().Add(time.Duration(i%5) * 100 * time.Microsecond))
		}
		n, err := s.Read(p)
		all = append(all, p[:n]...)
		_ = s.SetReadDeadline(time.Time{})
		switch {
		case err == io.EOF: //nolint:errorlint // as io.Reader says
			return all
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("read: %v", err)
			return all
		}
	}
}
