package stream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// TestUrgentQueueDropsOldest pushes more than the limits: the oldest parts are dropped, and
// the newest part is kept even above the limit.
//
// Source: [WSD §5.5]
func TestUrgentQueueDropsOldest(t *testing.T) {
	var u urgentQueue
	if n := u.push(make([]byte, urgentLimit)); n != 0 {
		t.Errorf("%d bytes dropped within the limit", n)
	}
	if n := u.push([]byte("new")); n != urgentLimit || u.size != 3 || u.parts.len() != 1 {
		t.Errorf("%d bytes dropped, %d bytes in %d parts left", n, u.size, u.parts.len())
	}
	if n := u.push(make([]byte, 2*urgentLimit)); n != 3 || u.size != 2*urgentLimit {
		t.Errorf("%d bytes dropped, %d left, for a part above the limit", n, u.size)
	}
	u = urgentQueue{}
	for range urgentParts + 1 {
		u.push([]byte{1})
	}
	if u.parts.len() != urgentParts || u.size != urgentParts {
		t.Errorf("%d bytes in %d parts", u.size, u.parts.len())
	}
}

// TestUrgentQueuePopsParts pops a part in pieces, and never bytes of two parts at once.
func TestUrgentQueuePopsParts(t *testing.T) {
	var u urgentQueue
	u.push([]byte("abc"))
	u.push([]byte("de"))
	p := make([]byte, 2)
	for _, want := range []string{"ab", "c", "de"} {
		if n := u.pop(p); string(p[:n]) != want {
			t.Errorf("popped %q, want %q", p[:n], want)
		}
	}
	if u.size != 0 || u.parts.len() != 0 {
		t.Errorf("%d bytes in %d parts left", u.size, u.parts.len())
	}
}

// TestUrgentQueueCopies changes the memory of a part after push.
func TestUrgentQueueCopies(t *testing.T) {
	var u urgentQueue
	b := []byte("abc")
	u.push(b)
	b[0] = 'x'
	p := make([]byte, 3)
	if u.pop(p); !bytes.Equal(p, []byte("abc")) {
		t.Errorf("popped %q", p)
	}
}

// TestUrgentPassesLargeTransfers sends urgent data between two large transfers that are not
// read.
//
// Source: [WSD §5.5]
func TestUrgentPassesLargeTransfers(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		data := pattern(50000)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Write(data[:25000]); err != nil {
				t.Error(err)
			}
			if _, err := a.WriteUrgent([]byte("now")); err != nil {
				t.Error(err)
			}
			if _, err := a.Write(data[25000:]); err != nil {
				t.Error(err)
			}
		})
		got, buf := make([]byte, 0, len(data)), make([]byte, 10)
		if f.name != "shm" { // where Write waits for the reader
			got = got[:25000]
			if _, err := io.ReadFull(b, got); err != nil {
				t.Fatal(err)
			}
		}
		n, err := b.ReadUrgent(buf[:2])
		if err != nil || string(buf[:n]) != "no" {
			t.Errorf("ReadUrgent: %q, %v", buf[:n], err)
		}
		if n, err = b.ReadUrgent(buf); err != nil || string(buf[:n]) != "w" {
			t.Errorf("ReadUrgent: %q, %v", buf[:n], err)
		}
		rest := make([]byte, len(data)-len(got))
		if _, err := io.ReadFull(b, rest); err != nil || !bytes.Equal(append(got, rest...), data) {
			t.Errorf("the stream: %v", err)
		}
		wg.Wait()
		if err := b.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadUrgent(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadUrgent at the end: %v", err)
		}
	})
}

// TestUnreadUrgentDataIsDropped sends more urgent data than is kept; the stream goes on.
func TestUnreadUrgentDataIsDropped(t *testing.T) {
	a, b := pair(t, fabrics()[0], setup{})
	for range 4 * urgentLimit / 1000 {
		if _, err := a.WriteUrgent(pattern(1000)); err != nil {
			t.Fatal(err)
		}
	}
	exchange(t, a, b, pattern(100))
	st := b.Stats()
	if st.UrgentDropped < 3*urgentLimit-1000 {
		t.Errorf("%d bytes were dropped", st.UrgentDropped)
	}
}
