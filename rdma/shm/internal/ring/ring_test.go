//go:build linux

package ring

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// ringPair is a ring with a producer, a consumer, and the entries in flight between them.
type ringPair struct {
	in  Consumer
	out Producer
	own *Segment // the consumer's
	way [][]byte
	n   byte
}

func newRingPair(size int) *ringPair {
	fresh := func() *Segment { return segmentOf(make([]byte, SegmentSize), make([]byte, size)) }
	a, b := fresh(), fresh()
	return &ringPair{in: NewConsumer(a, 0), out: NewProducer(a, b), own: b}
}

// put sends n bytes in an entry, if there is room, and returns the offset in the ring
// where the entry ends.
func (r *ringPair) put(n int) (end int, ok bool, err error) {
	room, err := r.out.Room(EntrySize(n))
	if err != nil || room < EntrySize(n) {
		return 0, false, err
	}
	r.n++
	p := bytes.Repeat([]byte{r.n}, n)
	e := Entry{Kind: Send, Length: uint32(n), Total: uint32(n)}
	if r.n%2 == 0 {
		e.Kind = CompactSend
	}
	a, b := r.out.Payload(e.Header(), n)
	copy(b, p[copy(a, p):])
	r.out.Publish(&e)
	r.way = append(r.way, p)
	return int(r.out.tail & uint64(len(r.out.own.Ring)-1)), true, nil
}

// get takes an entry out, and reports whether it was the first entry in flight.
func (r *ringPair) get() (right bool, err error) {
	var e Entry
	ok, err := r.in.Next(&e)
	if err == nil && ok && r.in.Skips(&e) {
		r.in.Take(&e)
		ok, err = r.in.Next(&e)
	}
	if err != nil || !ok {
		return false, err
	}
	a, b := r.in.Payload(&e)
	right = (e.Kind == Send || e.Kind == CompactSend) && bytes.Equal(append(bytes.Clone(a), b...), r.way[0])
	r.in.Take(&e)
	r.own.Head.Store(r.in.head)
	r.way = r.way[1:]
	return right, nil
}

// All entries come out in order, at any rewind. There is room for every entry that fits,
// and Published reports the same room.
func TestRingKeepsEntriesAndRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRingPair(MinSize)
		sizes := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, MinSize/2))
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := sizes.Draw(t, "size")
				published, err := r.out.Published()
				if err != nil {
					t.Fatal(err)
				}
				_, ok, err := r.put(n)
				if err != nil || ok != (published >= EntrySize(n)) {
					t.Fatalf("%d bytes of %d that are free: %v, %v", EntrySize(n), published, ok, err)
				}
			},
			"get": func(t *rapid.T) {
				if len(r.way) == 0 {
					t.Skip("the ring is empty")
				}
				if right, err := r.get(); err != nil || !right {
					t.Fatalf("the first entry: %v, %v", right, err)
				}
			},
			"": func(t *rapid.T) {
				if there := r.in.Arrived(); there != (len(r.way) > 0) {
					t.Fatalf("a look finds entries: %v, with %d entries in flight", there, len(r.way))
				}
			},
		})
		for len(r.way) > 0 {
			if right, err := r.get(); err != nil || !right {
				t.Fatalf("the first entry: %v, %v", right, err)
			}
		}
	})
}

// While the peer takes each entry before the next one is sent, the same few pages of the
// ring are used.
func TestRingStaysShort(t *testing.T) {
	for _, size := range []int{0, 64, 4 << 10, 17 << 10, 60 << 10} {
		r := newRingPair(DefaultSize)
		for range 1000 {
			end, ok, err := r.put(size)
			if most := RewindAfter*5/4 + 2*EntrySize(size); err != nil || !ok || end > most {
				t.Fatalf("an entry of %d bytes ends at %d, not within %d: %v, %v", size, end, most, ok, err)
			}
			if right, err := r.get(); err != nil || !right {
				t.Fatalf("an entry of %d bytes comes out: %v, %v", size, right, err)
			}
		}
	}
}

// An empty ring takes an entry of its size, at any position.
func TestEmptyRingHasRoom(t *testing.T) {
	r := newRingPair(MinSize)
	for i := range 1000 {
		size := (i*7 + i*i) * HeaderSize % (MinSize - HeaderSize)
		if _, ok, err := r.put(size); err != nil || !ok {
			t.Fatalf("an entry of %d bytes at %d: %v, %v", size, r.out.tail, ok, err)
		}
		if right, err := r.get(); err != nil || !right {
			t.Fatalf("an entry of %d bytes comes out: %v, %v", size, right, err)
		}
	}
}
