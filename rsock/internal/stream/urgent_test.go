package stream

import (
	"bytes"
	"testing"
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

// TestUrgentQueuePopsParts pops a part by pieces, and never bytes of two parts at once.
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
