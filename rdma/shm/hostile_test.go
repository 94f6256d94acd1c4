//go:build linux

package shm

import (
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/internal/test/leakcheck"
	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// raw is a peer that writes its messages and its ring itself.
type raw struct {
	tb   testing.TB
	nc   *net.UnixConn
	fds  ring.SegmentFDs
	own  *ring.Segment
	peer *ring.Segment
}

// attack connects a raw peer to a passive side and completes the connection. change
// changes the segment and the message, and returns the descriptors to send.
func attack(tb testing.TB, change func(*raw, *hello) []int) (*raw, *side, chan error) {
	tb.Helper()
	passive := newSide(tb, &Config{DrainTimeout: 50 * time.Millisecond}, 1<<16)
	if _, err := passive.qp.PostReceive(make([]rdma.ReceiveRequest, 4)); err != nil {
		tb.Fatal(err)
	}
	l, addr := passive.listen(tb)
	accepted := make(chan error, 1)
	go func() { accepted <- passive.serve(tb.Context(), l) }()
	r := &raw{tb: tb, nc: must[*net.UnixConn](tb)(openSocket(tb.Context(), "", addr.Name))}
	tb.Cleanup(func() { r.nc.Close() })
	if err := acceptRights(r.nc); err != nil {
		tb.Fatal(err)
	}
	if err := sendHello(r.nc, &hello{kind: helloRequest, limits: someReads}); err != nil {
		tb.Fatal(err)
	}
	h, peer, b, err := new(foreign).receiveHello(r.nc, 0, acceptFDs)
	if err != nil || h.kind != helloAccept {
		tb.Fatal(h, err)
	}
	r.peer = peer
	tb.Cleanup(b.Close)
	tb.Cleanup(peer.Unmap)
	if r.fds, r.own, err = ring.NewSegment(ring.MinSize); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.fds.Close(); r.own.Unmap() })
	ready := hello{kind: helloReady, ring: ring.MinSize}
	fds := r.fds[:]
	if change != nil {
		fds = change(r, &ready)
	}
	_, _, err = r.nc.WriteMsgUnix(ready.appendTo(nil), unix.UnixRights(fds...), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r, passive, accepted
}

// put puts an entry into the raw peer's ring and wakes the other side.
func (r *raw) put(e ring.Entry, size int) {
	tail := r.own.Tail.Load()
	e.Store(r.own.Ring, int(tail&uint64(len(r.own.Ring)-1)))
	r.own.Tail.Store(tail + uint64(size))
	r.say([]byte{noticeWake})
}

// share passes two pages to a side, under the token, at address 0.
func (r *raw) share(s *side, token uint32) {
	r.tb.Helper()
	fd, mem, err := ring.NewMemfd("lent", 8192)
	if err == nil {
		err = ring.Populate(fd, mem)
	}
	if err != nil {
		r.tb.Fatal(err)
	}
	r.own.Slot(0).Size.Store(8192)
	r.own.Slot(0).Key.Store(uint64(token) | ring.SlotWrite)
	n := notice{kind: noticeShare, memory: 1, token: token, size: 8192}
	r.say(n.appendTo(nil), fd)
	_ = unix.Munmap(mem)
	_ = unix.Close(fd)
	eventually(r.tb, "the memory is mapped", func() bool { return s.inside().mappings.knows(token) })
}

func (r *raw) say(msg []byte, fds ...int) {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, _ = r.nc.WriteMsgUnix(msg, oob, nil)
}

// A peer with an invalid segment is refused, and leaves no resources behind. Source:
// design decision 11
func TestInvalidSegmentIsRefused(t *testing.T) {
	const words, data = 0, 1
	file := func(which, size, seals int, fill bool) func(*raw, *hello) []int {
		return func(r *raw, _ *hello) []int {
			fd := must[int](r.tb)(unix.MemfdCreate("bad", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))
			r.tb.Cleanup(func() { unix.Close(fd) })
			err := unix.Ftruncate(fd, int64(size))
			if fill {
				err = unix.Fallocate(fd, 0, 0, int64(size))
			}
			if _, e := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil || e != nil {
				r.tb.Fatal(err, e)
			}
			fds := r.fds
			fds[which] = fd
			return fds[:]
		}
	}
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	for name, change := range map[string]func(*raw, *hello) []int{
		"no seals":             file(words, ring.SegmentSize, 0, true),
		"may shrink":           file(words, ring.SegmentSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL, true),
		"one byte short":       file(words, ring.SegmentSize-1, all, true),
		"one page long":        file(words, ring.SegmentSize+4096, all, true),
		"empty":                file(words, 0, all, false),
		"ring without seals":   file(data, ring.MinSize, 0, true),
		"ring may shrink":      file(data, ring.MinSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL, true),
		"ring one byte short":  file(data, ring.MinSize-1, all, true),
		"ring one page long":   file(data, ring.MinSize+4096, all, true),
		"empty ring":           file(data, 0, all, false),
		"ring as long as both": file(data, ring.SegmentSize+ring.MinSize, all, true),
		"not populated": func(r *raw, h *hello) []int {
			h.ring = 2 * ring.DefaultSize
			return file(data, 2*ring.DefaultSize, all, false)(r, h)
		},
		"no descriptor":     func(*raw, *hello) []int { return nil },
		"one descriptor":    func(r *raw, _ *hello) []int { return r.fds[:1] },
		"three descriptors": func(r *raw, _ *hello) []int { return append(r.fds[:], r.fds[0]) },
		"many descriptors": func(r *raw, _ *hello) []int {
			return slices.Repeat(r.fds[:], 3)
		},
		"a socket": func(r *raw, _ *hello) []int {
			return []int{must[int](r.tb)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)), r.fds[data]}
		},
		"a socket as the ring": func(r *raw, _ *hello) []int {
			return []int{r.fds[words], must[int](r.tb)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))}
		},
		"ring size not 2^n": func(r *raw, h *hello) []int { h.ring = ring.MinSize + 4096; return r.fds[:] },
		"ring too small":    func(r *raw, h *hello) []int { h.ring = ring.MinSize / 2; return r.fds[:] },
		"ring too large":    func(r *raw, h *hello) []int { h.ring = 1 << 31; return r.fds[:] },
		"other message":     func(r *raw, h *hello) []int { h.kind = helloAccept; return r.fds[:] },
		"second request":    func(r *raw, h *hello) []int { *h = hello{kind: helloRequest}; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			socket := map[string]int{"a socket": words, "a socket as the ring": data}
			which, ours := socket[name]
			if !ours {
				leakcheck.Check(t)
			}
			r, passive, accepted := attack(t, func(r *raw, h *hello) []int {
				fds := change(r, h)
				if ours {
					t.Cleanup(func() { unix.Close(fds[which]) })
				}
				return fds
			})
			if err := <-accepted; !errors.Is(err, rdma.StatusConnectionAborted) {
				t.Errorf("accept: %v", err)
			}
			r.nc.Close()
			passive.a.Close()
		})
	}
}

// For any bytes of a peer in its segment and on its socket, the other side ends the
// connection or continues, and no memory changes. Source: design decision 11
func TestArbitraryRingContentIsSafe(t *testing.T) {
	for name, do := range map[string]func(*raw, *side){
		"kind":                     func(r *raw, _ *side) { r.put(ring.Entry{Kind: 9}, 32) },
		"kind 0":                   func(r *raw, _ *side) { r.put(ring.Entry{}, 32) },
		"tail far away":            func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.Send}, 1<<40) },
		"tail goes back":           func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.Send}, -32) },
		"tail not aligned":         func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.Send}, 33) },
		"longer than ring content": func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.Write, Length: 1, Total: 1}, 32) },
		"longer than ring": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: math.MaxUint32, Total: math.MaxUint32}, ring.MinSize)
		},
		"longer than total": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: 32, Total: 1, Token: uint32(s.at(0).Token), Addr: s.at(1<<16 - 1).Addr}, 64)
		},
		"total too large": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Total: softrdma.MaxTransfer + 1}, 32)
		},
		"part without a message": func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.Send, Length: 1, Total: 2}, 64) },
		"first twice": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 0, Total: 0}, 32)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, 64)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, 64)
		},
		"token": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: 8, Total: 8, Token: uint32(s.at(0).Token) + 1, Addr: s.at(0).Addr}, 64)
		},
		"bounds": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: 8, Total: 8, Token: uint32(s.at(0).Token), Addr: s.at(1<<16 - 7).Addr}, 64)
		},
		"total out of bounds": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: 8, Total: 1 << 17, Token: uint32(s.at(0).Token), Addr: s.at(0).Addr}, 64)
		},
		"wraps": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.Write, Length: 8, Total: 8, Token: uint32(s.at(0).Token), Addr: math.MaxUint64 - 3}, 64)
		},
		"read out of bounds": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.ReadRequest, Total: 8, Token: uint32(s.at(0).Token), Addr: s.at(1<<16 - 7).Addr}, 32)
		},
		"read of no token": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.ReadRequest, Total: 8, Token: uint32(s.at(0).Token) + 1, Addr: s.at(0).Addr}, 32)
		},
		"read with payload": func(r *raw, s *side) {
			r.put(ring.Entry{Kind: ring.ReadRequest, Length: 8, Total: 8, Token: uint32(s.at(0).Token), Addr: s.at(0).Addr}, 64)
		},
		"response without a read": func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.ReadResponse}, 32) },
		"answer too long": func(r *raw, s *side) {
			s.post(r.tb, rdma.Request{Op: rdma.OpRead, SGL: s.sge(0, 8), Remote: rdma.RemoteAddr{Addr: 1, Token: 1}})
			r.put(ring.Entry{Kind: ring.ReadResponse, Length: 32, Total: 32}, 64)
		},
		"answer too short": func(r *raw, s *side) {
			s.post(r.tb, rdma.Request{Op: rdma.OpRead, SGL: s.sge(0, 8), Remote: rdma.RemoteAddr{Addr: 1, Token: 1}})
			r.put(ring.Entry{Kind: ring.ReadResponse}, 32)
		},
		"immediate within a message": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst}, 32)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, 64)
			r.put(ring.Entry{Kind: ring.Write, Flags: ring.FlagImmediate}, 32)
		},
		"compact, longer than ring content": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: 25}, 32)
		},
		"compact, longer than the ring": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: math.MaxUint32}, ring.MinSize)
		},
		"compact part without a message": func(r *raw, _ *side) { r.put(ring.Entry{Kind: ring.CompactSend, Length: 8}, 32) },
		"compact, within a message": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst}, 32)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, 64)
			r.put(ring.Entry{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: 8}, 32)
		},
		"skips less than the rest of the ring": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.Skip, Length: 32, Total: 32}, 64)
		},
		"by reference, without a region": func(r *raw, _ *side) {
			r.put(ring.Entry{Kind: ring.SendByReference, Flags: ring.FlagFirst, Total: 64, Token: 5}, 32)
		},
		"by reference, of no bytes": func(r *raw, s *side) {
			r.share(s, 5)
			r.put(ring.Entry{Kind: ring.SendByReference, Flags: ring.FlagFirst, Token: 5}, 32)
		},
		"by reference, beyond the region": func(r *raw, s *side) {
			r.share(s, 5)
			r.put(ring.Entry{Kind: ring.SendByReference, Flags: ring.FlagFirst, Total: 1, Addr: 8192, Token: 5}, 32)
		},
		"by reference, longer than the receive": func(r *raw, s *side) {
			r.share(s, 5)
			r.put(ring.Entry{Kind: ring.SendByReference, Flags: ring.FlagFirst, Total: 1, Token: 5}, 32)
		},
		"by reference, not the first of a message": func(r *raw, s *side) {
			r.share(s, 5)
			r.put(ring.Entry{Kind: ring.SendByReference, Total: 1, Token: 5}, 32)
		},
		"by reference, within a message": func(r *raw, s *side) {
			r.share(s, 5)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst}, 32)
			r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, 64)
			r.put(ring.Entry{Kind: ring.SendByReference, Flags: ring.FlagFirst, Total: 1, Token: 5}, 32)
		},
		"unknown kind of message": func(r *raw, _ *side) { r.say([]byte{77}) },
		"message too long":        func(r *raw, _ *side) { r.say(make([]byte, 4096)) },
		"descriptor with wake":    func(r *raw, _ *side) { r.say([]byte{noticeWake}, r.fds[0]) },
		"shares no memory": func(r *raw, _ *side) {
			n := notice{kind: noticeShare, size: 4096}
			r.say(n.appendTo(nil), 0)
		},
		"shares memory of another size": func(r *raw, _ *side) {
			n := notice{kind: noticeShare, size: 4096}
			r.say(n.appendTo(nil), r.fds[0])
		},
		"shares memory with holes": func(r *raw, _ *side) {
			fd, mem, err := ring.NewMemfd("holes", 1<<16)
			if err != nil {
				r.tb.Fatal(err)
			}
			mem[0] = 1
			n := notice{kind: noticeShare, memory: 1, size: 1 << 16}
			r.say(n.appendTo(nil), fd)
			_ = unix.Munmap(mem)
			_ = unix.Close(fd)
		},
		"shares a pipe": func(r *raw, _ *side) {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				r.tb.Fatal(err)
			}
			n := notice{kind: noticeShare, memory: 1, size: 4096}
			r.say(n.appendTo(nil), p[0])
			ring.CloseAll(p[:])
		},
		"shares a file": func(r *raw, _ *side) {
			f := must[*os.File](r.tb)(os.Create(filepath.Join(r.tb.TempDir(), "file")))
			defer f.Close()
			if err := f.Truncate(4096); err != nil {
				r.tb.Fatal(err)
			}
			n := notice{kind: noticeShare, memory: 1, size: 4096}
			r.say(n.appendTo(nil), int(f.Fd()))
		},
		"shares memory that may shrink": func(r *raw, _ *side) {
			fd := must[int](r.tb)(unix.MemfdCreate("shrinks", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))
			if err := unix.Fallocate(fd, 0, 0, 4096); err != nil {
				r.tb.Fatal(err)
			}
			n := notice{kind: noticeShare, memory: 1, size: 4096}
			r.say(n.appendTo(nil), fd)
			_ = unix.Close(fd)
		},
		"shares two memories at once": func(r *raw, _ *side) {
			n := notice{kind: noticeShare, memory: 1, size: ring.SegmentSize}
			r.say(n.appendTo(nil), r.fds[0], r.fds[0])
		},
		"shares with too many descriptors": func(r *raw, _ *side) {
			n := notice{kind: noticeShare, memory: 1, size: ring.SegmentSize}
			r.say(n.appendTo(nil), r.fds[0], r.fds[0], r.fds[0], r.fds[0], r.fds[0], r.fds[0], r.fds[0], r.fds[0])
		},
		"slot out of range": func(r *raw, _ *side) {
			n := notice{kind: noticeShare, slot: ring.Slots, size: ring.SegmentSize}
			r.say(n.appendTo(nil), r.fds[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			leakcheck.Check(t)
			r, passive, accepted := attack(t, nil)
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			do(r, passive)
			if err := ends(t, passive.conn); errors.Is(err, net.ErrClosed) {
				t.Errorf("ends as if in good order: %v", err)
			}
			for _, b := range passive.mem {
				if b != 0 {
					t.Fatal("memory changed")
				}
			}
			r.nc.Close()
			passive.a.Close()
		})
	}
}

// A peer whose table contradicts its memory is written only within the mapping. A peer
// with wrong counters ends the connection.
func TestWrongTableStaysWithinMapping(t *testing.T) {
	r, passive, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	fd, mem, err := ring.NewMemfd("misreport", 8192)
	if err == nil {
		err = ring.Populate(fd, mem)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer func() { _ = unix.Munmap(mem) }()
	n := notice{kind: noticeShare, memory: 1, slot: 3, token: 77, size: 8192}
	r.say(n.appendTo(nil), fd)
	c := passive.inside()
	eventually(t, "the memory is mapped", func() bool { return c.mappings.knows(77) })
	s := r.own.Slot(3)
	for _, lie := range []struct{ base, size, offset, addr uint64 }{
		{0, 16384, 0, 0}, {0, 8192, 1, 0}, {0, 8, math.MaxUint64, 0}, {0, math.MaxUint64, 0, 0},
		{1 << 63, 8192, 0, 0}, {0, 8, 0, 1}, {0, 8192, math.MaxUint64 - 4, 8},
	} {
		s.Key.Store(77 | ring.SlotWrite)
		s.Base.Store(lie.base)
		s.Size.Store(lie.size)
		s.Offset.Store(lie.offset)
		ok, err := c.mappings.access(lie.addr, 77, 8, ring.SlotWrite, func([]byte) error { return nil })
		if ok || err != nil {
			t.Errorf("%+v: %v, %v", lie, ok, err)
		}
	}
	s.Offset.Store(0)
	s.Size.Store(8192)
	s.Base.Store(0)
	if ok, err := c.mappings.access(8184, 77, 8, ring.SlotWrite, func([]byte) error { return nil }); !ok || err != nil {
		t.Errorf("the truth: %v, %v", ok, err)
	}
	r.own.Head.Store(1 << 50)
	// The counter is read when all known room is used.
	eventually(t, "the ring is full", func() bool {
		_, _ = passive.qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: passive.sge(0, 4096)}})
		next(t, passive.icq)
		return c.ending.Load() != nil
	})
	if err := ends(t, passive.conn); !errors.Is(err, rdma.StatusRemoteError) {
		t.Errorf("a head beyond the tail: %v", err)
	}
}

// A peer that removes pages from its memory while it is written gets zeros there. The
// connection continues.
func TestHolesInPeerMemoryBecomeZeros(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	active.introduce(t, passive.region)
	m, _ := passive.a.(*adapter).memoryOf(passive.mem)
	for range 20 {
		if err := unix.Fallocate(m.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<16); err != nil {
			skip.Test(t, "holes cannot be made", err)
		}
		if res := active.write(t, rdma.Request{SGL: active.sge(0, 1<<16), Remote: passive.at(0)}); res.Status != rdma.StatusSuccess {
			t.Fatal(res.Status)
		}
	}
}

// Both sides call AllowUID. Source: design decision 11
func TestBothSidesCheckAllowUID(t *testing.T) {
	nobody := &Config{AllowUID: func(uint32) bool { return false }}
	me := &Config{AllowUID: func(uid uint32) bool { return uid == uint32(os.Geteuid()) }}
	for _, c := range []struct {
		active, passive *Config
		want            error
	}{{nobody, me, errUser}, {me, nobody, rdma.StatusConnectionRefused}, {me, nobody, errForbidden}} {
		active, passive := newSide(t, c.active, 4096), newSide(t, c.passive, 4096)
		_, addr := passive.listen(t)
		err := active.conn.Connect(t.Context(), active.qp, addr, rdma.ReadLimits{}, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("a refused user connects: %v", err)
		}
	}
	if c := withDefaults(nil); !c.allowUID(0) || !c.allowUID(uint32(os.Geteuid())) || c.allowUID(uint32(os.Geteuid())+1) {
		t.Error("the default policy is not: the same user, and root")
	}
}

// A peer that asks late also learns that its user is not allowed.
func TestLateForbiddenPeerGetsReason(t *testing.T) {
	passive := newSide(t, &Config{AllowUID: func(uint32) bool { return false }}, 4096)
	_, addr := passive.listen(t)
	nc := must[*net.UnixConn](t)(openSocket(t.Context(), "", addr.Name))
	defer nc.Close()
	time.Sleep(rejectTime + rejectTime/10)
	if err := sendHello(nc, &hello{kind: helloRequest}); err != nil {
		t.Fatal(err)
	}
	if h, _, _, err := new(foreign).receiveHello(nc, 0, acceptFDs); err != nil || h.kind != helloForbidden {
		t.Errorf("answer %+v, %v", h, err)
	}
}

// The reason for the peer's end is known even if the peer left a message in its socket.
// The system then reports a reset of the connection.
func TestEndReasonSurvivesUnreadMessage(t *testing.T) {
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	r.own.Sleep.Store(ring.SleepMask + 1 + ring.SleepSocket)
	victim.post(t, rdma.Request{Op: rdma.OpSend}) // wakes the peer
	r.own.State.Store(stateFailed | uint64(rdma.StatusAccessViolation)<<32)
	r.nc.Close()
	if err := ends(t, victim.conn); !errors.Is(err, rdma.StatusAccessViolation) || !errors.Is(err, errPeerEnded) {
		t.Errorf("the connection ended with %v", err)
	}
}

// A peer that sends nothing, or an invalid request, does not block other peers.
func TestSilentPeerDoesNotBlockOthers(t *testing.T) {
	active, passive := newSide(t, nil, 4096), newSide(t, &Config{MaxStartups: 2}, 4096)
	l, addr := passive.listen(t)
	accepted := make(chan error, 1)
	go func() { accepted <- passive.serve(t.Context(), l) }()
	for i := range 5 {
		nc := must[*net.UnixConn](t)(openSocket(t.Context(), "", addr.Name))
		defer nc.Close()
		if i == 4 {
			_, _ = nc.Write([]byte("GET / HTTP/1.1"))
		}
	}
	active.dial(t, addr)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	active.deliver(t, passive)
}
