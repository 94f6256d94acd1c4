package stream

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// TestThresholdFitsOneMessage sends data of the size of the threshold, and of a TLS record, by
// Write and by ReadFrom: each is one message.
func TestThresholdFitsOneMessage(t *testing.T) {
	const record = 16<<10 + 256 + 5
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{active: Config{Threshold: record}, passive: Config{Threshold: record}})
		for _, n := range []int{1, 4 << 10, 16 << 10, record} {
			before, p := a.Stats().MessagesSent, pattern(n)
			exchange(t, a, b, p)
			if sent := a.Stats().MessagesSent - before; sent != 1 {
				t.Errorf("a Write of %d bytes took %d messages", n, sent)
			}
			done := make(chan error, 1)
			before = a.Stats().MessagesSent
			go func() {
				_, err := a.ReadFrom(bytes.NewReader(p))
				done <- err
			}()
			got := make([]byte, n)
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, p) {
				t.Fatalf("%d bytes: %v, or other ones", n, err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if sent := a.Stats().MessagesSent - before; sent != 1 {
				t.Errorf("a ReadFrom of %d bytes took %d messages", n, sent)
			}
		}
	})
}

// blockedReader reports each Read in asked, and returns the data that the test sends.
type blockedReader struct {
	asked chan struct{}
	data  chan []byte
}

func (r blockedReader) Read(p []byte) (int, error) {
	r.asked <- struct{}{}
	b, ok := <-r.data
	if !ok {
		return 0, io.EOF
	}
	return copy(p, b), nil
}

// TestSilentSourcesDoNotBlockWrites has many ReadFroms wait for sources that return no data:
// both sides can write.
func TestSilentSourcesDoNotBlockWrites(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		const readers = 2 * sendBuffers
		r := blockedReader{make(chan struct{}), make(chan []byte)}
		done := make(chan error, readers)
		for range readers {
			go func() {
				_, err := a.ReadFrom(r)
				done <- err
			}()
			<-r.asked
		}
		for range 2 * DefaultReceiveBuffers {
			exchange(t, a, b, pattern(1000))
			exchange(t, b, a, pattern(1000))
		}
		close(r.data)
		for range readers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDraftIsFreedAfterRead has the source of a ReadFrom with a draft return no data, an
// end, or data that cannot be sent: the buffer is free again.
func TestDraftIsFreedAfterRead(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, _ := pair(t, f, setup{})
		r := blockedReader{make(chan struct{}), make(chan []byte)}
		done := make(chan error, 1)
		start := func() {
			go func() {
				_, err := a.ReadFrom(r)
				done <- err
			}()
			<-r.asked
			if !a.hasDraft() {
				t.Error("the reader has no buffer of the stream")
			}
		}
		start()
		r.data <- nil // no data, and no error
		<-r.asked
		close(r.data)
		if err := <-done; err != nil || a.hasDraft() {
			t.Errorf("after no data: %v; draft: %v", err, a.hasDraft())
		}
		r.data = make(chan []byte)
		start()
		if err := a.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		r.data <- pattern(10)
		if err := <-done; !errors.Is(err, ErrWriteClosed) || a.hasDraft() {
			t.Errorf("after CloseWrite: %v; draft: %v", err, a.hasDraft())
		}
	})
}

// hasDraft reports whether a ReadFrom has a draft.
func (s *Stream) hasDraft() bool {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.drafted != nil
}
