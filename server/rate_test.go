package server

import (
	"bytes"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/vfs"
)

// A user above the byte rate waits. Other users, and the end of the connection, do not wait. No
// receive loop busy-polls for the user meanwhile.
func TestByteRateThrottlesOneUser(t *testing.T) { onEach(t, testByteRateThrottlesOneUser) }

func testByteRateThrottlesOneUser(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{BusyPoll: time.Hour}})
	v.file("a", content(10))
	greedy := newFakeSession(7)
	greedy.pace = ratelimit.NewLimiter(0, 1000, 10)
	n := v.negotiate(greedy)
	c := v.connect(n)
	c.auth(n, authOptions{})
	fid := c.register(v.open("a", vfs.ReadData, 0, greedy))
	c.want(ntstatus.Success, 10, c.readHeader(fid, 0, 10, 0), nil)
	eventually(t, "the loop spins", func() bool { return v.e.spinners.now.Load() == 1 })
	greedy.pace.Take(0, 1<<40)
	c.send(c.readHeader(fid, 0, 10, 0), nil)
	eventually(t, "it does not while it waits", func() bool { return v.e.spinners.now.Load() == 0 })
	if n := v.e.count.throttled.Load(); n != 1 {
		t.Errorf("%d requests waited", n)
	}
	v.check(v.client())
	greedy.end()
	c.wantCut() // and there was no answer before
}

// Each request counts with all bytes that it moves, however they are spread; a refused one counts
// none.
func TestByteRateCountsAllBytesOfARequest(t *testing.T) {
	const window, regions = 1 << 20, 4096
	l := wire.Limits{MaxRecvBufferSize: regions * wire.RDMARegionSize, MaxRdmaWindowSize: window}
	vecRead := func(length uint32, pages uint16) op {
		return op{h: by(wire.NewVecRead(1, 0, length, pages, 32<<10), completion{Cookie: 1}), size: wire.HeaderSize + int(pages)*wire.RDMARegionSize}
	}
	read := func(length uint32) op {
		return op{h: by(wire.NewRead(1, 0, wire.RDMARegion{DataVa: 4096, DataMh: 1, Length: length}), completion{Cookie: 1}), size: wire.HeaderSize}
	}
	for name, x := range map[string]struct {
		o    op
		want int
	}{
		"read":                              {read(window), window},
		"read above the window":             {read(window + 1), 0},
		"vectored read of 128 MiB":          {vecRead(regions<<15, regions), 128 << 20},
		"vectored read of part of its room": {vecRead(5000, regions), 5000},
		"vectored read above its room":      {vecRead(1<<32-1, regions), 128 << 20},
		"interrupt":                         {op{h: by(wire.NewInterrupt(1), completion{Cookie: 1}), size: wire.HeaderSize}, 0},
	} {
		if got := x.o.ratedBytes(l); got != x.want {
			t.Errorf("%s: %d bytes, want %d", name, got, x.want)
		}
	}
}

// I/O that was started when a connection is throttled goes on, so that the close of the file does
// not wait for it; and the end of the client is noticed.
//
// Source: [OP-58b], [LWIO §Vectored Read]
func TestThrottledConnectionHoldsUpNoClose(t *testing.T) {
	onEach(t, testThrottledConnectionHoldsUpNoClose)
}

func testThrottledConnectionHoldsUpNoClose(t *testing.T, on string) {
	const size, window = 256 << 10, 64 << 10
	b := newGate(t)
	v := newEnv(t, envConfig{on: on, backend: b, limits: Limits{MaxRDMAWindowSize: window}})
	data := content(size)
	b.make("a", data)
	greedy := newFakeSession(7)
	greedy.pace = ratelimit.NewLimiter(0, 1<<40, 1<<40)
	n := v.negotiate(greedy)
	c := v.connect(n)
	c.auth(n, authOptions{})
	o := v.open("a", vfs.ReadData, 0, greedy)
	fid := c.register(o)
	b.shut()
	var body []byte
	for at := uint64(0); at < size; at += 4096 {
		body = wire.RDMARegion{DataVa: c.in.RemoteAddr().Addr + at, DataMh: uint32(c.in.RemoteAddr().Token), Length: 4096}.AppendTo(body)
	}
	read := c.send(by(wire.NewVecRead(fid, 0, size, size/4096, 4096), completion{Cookie: 5}), body)
	eventually(t, "the first part is being read", func() bool { return b.waiting() == 1 })
	greedy.pace.Take(0, 1<<50)
	for range 3 {
		c.send(c.readHeader(fid, 0, 10, 0), nil)
	}
	eventually(t, "the connection is held back", func() bool { return v.e.count.throttled.Load() == 1 })
	closed := make(chan error, 1)
	go func() { closed <- o.Close() }()
	eventually(t, "the file is revoked", func() bool { return v.e.count.files.Load() == 0 })
	b.open()
	if s := c.reply(); s.Cookie != read || s.Status != 0 || s.Information != size || !bytes.Equal(c.in.Bytes()[:size], data) {
		t.Errorf("the read that was begun: %+v", s)
	}
	if err := <-closed; err != nil || v.e.count.throttled.Load() != 1 {
		t.Errorf("%v, %d requests waited", err, v.e.count.throttled.Load())
	}
	c.connector.Close()
	eventually(t, "the connection has ended", v.deserted)
}

// Messages that arrive while a connection is throttled are handled later, in their order.
func TestThrottledMessagesKeepTheirOrder(t *testing.T) {
	onEach(t, testThrottledMessagesKeepTheirOrder)
}

func testThrottledMessagesKeepTheirOrder(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{MaxCredits: 2 * pollSize, Credits: 2 * pollSize}})
	v.file("a", content(10))
	brisk := newFakeSession(7)
	brisk.pace = ratelimit.NewLimiter(1000, 0, 0)
	n := v.negotiate(brisk)
	c := v.connect(n)
	c.auth(n, authOptions{})
	fid := c.register(v.open("a", vfs.ReadData, 0, brisk))
	sent := make(map[uint64]bool)
	slowed := &v.e.count.throttled
	for round := 0; round < 5 || slowed.Load() == 0 && round < 100; round++ {
		if slowed.Load() == 0 {
			brisk.pace.Take(200, 0) // a slow machine may use that up before the first message comes
		}
		for range c.credits - 1 {
			sent[c.send(c.readHeader(fid, 0, 10, 0), nil)] = true
		}
		for len(sent) > 0 {
			s := c.reply()
			if !sent[s.Cookie] || s.Status != 0 {
				t.Fatalf("%+v", s)
			}
			delete(sent, s.Cookie)
		}
	}
	if gaps := v.e.count.gaps.Load(); gaps != 0 || slowed.Load() == 0 {
		t.Errorf("%d messages out of order, %d waited", gaps, slowed.Load())
	}
}

// The connections of a user are limited, over all keys; one that ends makes room.
//
// Source: [OP-42b]
func TestConnectionsOfAUserAreBounded(t *testing.T) { onEach(t, testConnectionsOfAUserAreBounded) }

func testConnectionsOfAUserAreBounded(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{ConnectionsPerUser: 2}})
	first, second := v.client(), v.client()
	for range 20 {
		n := v.negotiate(newFakeSession(9))
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{})
		c.wantRefused(msg, ntstatus.InsufficientResources)
	}
	if limited, failures := v.e.count.userLimited.Load(), v.e.count.authFailures.Load(); limited != 20 || failures != 0 {
		t.Errorf("%d refused, %d failures", limited, failures)
	}
	v.check(first)
	v.check(second)
	first.connector.Close()
	eventually(t, "there is room again", func() bool {
		return v.e.conns.users.HeldBy("alice") == 1
	})
	v.check(v.client())
}
