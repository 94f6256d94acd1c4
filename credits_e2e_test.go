package lwio_test

import (
	"bytes"
	"sync"
	"testing"

	"lwio"
	"lwio/lwiotest"
)

// TestCreditsFollowTheNeed reads from more goroutines than the first grant lets have a
// request in flight.
//
// Source: [LWIO §Credits], [OP-74c]
func TestCreditsFollowTheNeed(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c := s.Client(&lwio.Config{RequireRDMA: true, Credits: 100})
	first := c.MaxInFlight()
	data := random(64<<10, 1)
	put(t, c, "f", data)
	f, err := c.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wg sync.WaitGroup
	for i := range 3 * first {
		wg.Go(func() {
			p := make([]byte, 2000)
			for c.MaxInFlight() == first && t.Context().Err() == nil {
				off := 17 * i
				if n, err := f.ReadAt(p, int64(off)); n != len(p) || err != nil || !bytes.Equal(p, data[off:off+len(p)]) {
					t.Errorf("read at %d: %d, %v", off, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := c.MaxInFlight(); n <= first || n > 100 {
		t.Errorf("%d credits after %d", n, first)
	}
}
