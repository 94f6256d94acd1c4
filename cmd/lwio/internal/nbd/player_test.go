package nbd

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// player sends random requests, several in flight, and checks their replies. Requests in flight do not overlap.
type player struct {
	p          *peer
	structured bool
	off        int    // of its part of the export
	want       []byte // the content of its part
	rng        *rand.Rand
	flight     map[uint64]played
}

// played is a request in flight.
type played struct {
	command uint16
	at, n   int
}

// playerDepth is the number of requests in flight.
const playerDepth = 24

// play does n requests.
func (y *player) play(n int) {
	y.flight = map[uint64]played{}
	for i := range n {
		for len(y.flight) >= playerDepth {
			y.receive()
		}
		o := played{command: []uint16{0, 0, 1, 1, 3, 5, 6}[y.rng.IntN(7)]}
		if o.command != 3 {
			if y.rng.IntN(3) > 0 {
				o.n = 1 + y.rng.IntN(4096)
			} else {
				o.n = 1 + y.rng.IntN(200_000)
			}
			o.at = y.rng.IntN(len(y.want) - o.n)
		}
		if y.overlaps(o) {
			y.receive()
			continue
		}
		y.send(uint64(i)<<32|uint64(y.off), o)
	}
	for len(y.flight) > 0 {
		y.receive()
	}
}

// overlaps reports whether a request in flight has bytes of o.
func (y *player) overlaps(o played) bool {
	for _, f := range y.flight {
		if o.at < f.at+f.n && f.at < o.at+o.n {
			return true
		}
	}
	return false
}

// send sends a request.
func (y *player) send(cookie uint64, o played) {
	b := binary.BigEndian.AppendUint32(nil, 0x25609513)
	flags := uint16(0)
	if o.command == 1 || o.command == 6 {
		flags = uint16(y.rng.IntN(8) / 7)
	}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, o.command)
	b = binary.BigEndian.AppendUint64(b, cookie)
	at := y.off + o.at
	if o.command == 3 {
		at = 0
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(o.n))
	switch o.command {
	case 1:
		data := make([]byte, o.n)
		for i := range data {
			data[i] = byte(y.rng.Uint32())
		}
		copy(y.want[o.at:], data)
		b = append(b, data...)
	case 6:
		clear(y.want[o.at:][:o.n])
	}
	if _, err := y.p.Write(b); err != nil {
		y.p.t.Error(err)
	}
	y.flight[cookie] = o
}

// receive receives a reply.
func (y *player) receive() {
	t := y.p.t
	b := make([]byte, 16)
	y.readFull(b)
	cookie := binary.BigEndian.Uint64(b[8:])
	if binary.BigEndian.Uint32(b) == 0x668e33ef {
		rest := make([]byte, 4)
		y.readFull(rest)
	}
	o, ok := y.flight[cookie]
	if !ok {
		t.Errorf("reply %x to nothing", b)
		clear(y.flight)
		return
	}
	delete(y.flight, cookie)
	if simple := binary.BigEndian.Uint32(b) == 0x67446698; simple == y.structured || simple && binary.BigEndian.Uint32(b[4:]) != 0 ||
		!simple && binary.BigEndian.Uint16(b[6:]) > 1 {
		t.Errorf("%x to %+v", b, o)
	}
	if o.command != 0 {
		return
	}
	if y.structured {
		y.readFull(make([]byte, 8))
	}
	data := make([]byte, o.n)
	y.readFull(data)
	if !bytes.Equal(data, y.want[o.at:][:o.n]) {
		t.Errorf("other data for %+v", o)
	}
}

// readFull fills b.
func (y *player) readFull(b []byte) {
	for n := 0; n < len(b); {
		m, err := y.p.Conn.Read(b[n:])
		if n += m; err != nil {
			y.p.t.Error(err)
			clear(y.flight)
			return
		}
	}
}
