package fault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
)

// The faults of a seed are always the same, and have the requested frequency.
func TestRandomFollowsSeed(t *testing.T) {
	chances := fault.Chances{Cut: 0.01, Fail: 0.1, Drop: 0.1, Flip: 0.1, Delay: 0.1, MaxDelay: time.Second}
	fates := func(seed uint64) (acts []fault.Action) {
		f := fault.Random(seed, chances)
		for pair := range uint64(4) {
			for n := range uint64(1000) {
				acts = append(acts, f(fault.Attempt{Pair: pair + 1, N: n + 1}))
			}
		}
		return acts
	}
	one, again, other := fates(1), fates(1), fates(2)
	same, kinds := 0, make(map[string]int)
	for i, act := range one {
		if again[i] != act {
			t.Fatalf("request %d: %v, then %v", i, act, again[i])
		}
		if other[i] == act && act != fault.Pass() {
			same++
		}
		kinds[strings.Fields(act.String())[0]]++
	}
	if same > len(one)/20 {
		t.Errorf("two seeds have %d faults of %d in common", same, len(one))
	}
	for kind, want := range map[string]int{"cut": 40, "fail:": 400, "drop": 350, "flip": 320, "delay": 280, "pass": 2600} {
		if got := kinds[kind]; got < want/2 || got > want*2 {
			t.Errorf("%s: %d times, about %d are expected", kind, got, want)
		}
	}
	if act := fault.Random(1, fault.Chances{Fail: 1})(fault.Attempt{}); act != fault.Fail(rdma.StatusInsufficientResources) {
		t.Errorf("certain failure: %v", act)
	}
}

func TestAtByteHitsRequestThatHoldsByte(t *testing.T) {
	f := fault.AtByte(100, fault.Cut())
	for _, c := range []struct {
		before uint64
		bytes  int
		want   fault.Action
	}{
		{0, 100, fault.Pass()}, {0, 101, fault.Cut()}, {100, 0, fault.Pass()}, {100, 1, fault.Cut()}, {101, 50, fault.Pass()},
	} {
		if got := f(fault.Attempt{Before: c.before, Bytes: c.bytes}); got != c.want {
			t.Errorf("%d bytes after %d: %v", c.bytes, c.before, got)
		}
	}
}

// The wrapper counts the bytes of the requests of a queue pair.
func TestCutAtByteEndsTheConnectionThere(t *testing.T) {
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: fault.AtByte(150, fault.Cut())}))
	for i, want := range []error{nil, nil, net.ErrClosed} {
		_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpWrite, SGL: active.sge(0, 70), Remote: passive.at(0)}})
		if !errors.Is(err, want) {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	<-passive.conn.Done()
}

func TestDelayHoldsUpRequest(t *testing.T) {
	const delay = 20 * time.Millisecond
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: fault.AtOperation(1, fault.Delay(delay))}))
	passive.receive(t, 1, 8)
	start := time.Now()
	_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend}})
	check(t, err)
	passive.next(t)
	if took := time.Since(start); took < delay {
		t.Errorf("delivered after %v", took)
	}
}

// One bit of the data differs at the peer, and none at this side.
func TestFlipInvertsOneBitAtPeer(t *testing.T) {
	content := bytes.Repeat([]byte{0x5a}, 100)
	file, err := os.Create(filepath.Join(t.TempDir(), "source"))
	check(t, err)
	defer file.Close()
	_, err = io.Copy(file, bytes.NewReader(content[:90]))
	check(t, err)
	for name, build := range map[string]func(active, passive *side) rdma.Request{
		"send": func(active, _ *side) rdma.Request { return rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 100)} },
		"gather": func(active, _ *side) rdma.Request {
			return rdma.Request{Op: rdma.OpSend, SGL: append(active.sge(0, 60), active.sge(60, 40)...)}
		},
		"inline": func(_, passive *side) rdma.Request {
			return rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagInline, Inline: content[:16], Remote: passive.at(0)}
		},
		"write": func(active, passive *side) rdma.Request {
			return rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 100), Remote: passive.at(0)}
		},
		"silent": func(active, passive *side) rdma.Request {
			return rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, 100), Remote: passive.at(0)}
		},
		"file": func(active, passive *side) rdma.Request {
			src, err := active.adapter.RegisterFile(t.Context(), file)
			check(t, err)
			return rdma.Request{Op: rdma.OpWrite, File: src, FileLength: 100, Remote: passive.at(0)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: fault.AtOperation(2, fault.Flip(8*1000+3))}))
			copy(active.mem, content)
			passive.receive(t, 1, 100)
			passive.receive(t, 2, 0)
			req := build(active, passive)
			_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend, ID: 8}, req, {Op: rdma.OpSend, ID: 9}})
			check(t, err)
			if res := active.next(t); res.ID != 8 {
				t.Errorf("result %+v", res)
			}
			if req.Flags&rdma.FlagSilentSuccess == 0 {
				if res := active.next(t); res.Status != rdma.StatusSuccess || req.File != nil && res.Bytes != 90 {
					t.Errorf("result %+v", res)
				}
			}
			if res := active.next(t); res.ID != 9 || res.Status != rdma.StatusSuccess {
				t.Errorf("result %+v", res)
			}
			for range 2 {
				passive.next(t)
			}
			if req.Op == rdma.OpSend {
				passive.next(t)
			}
			want, n := bytes.Clone(content), 100
			if req.File != nil {
				clear(want[90:])
			} else if name == "inline" {
				n = 16
			}
			if d := difference(passive.mem[:n], want[:n]); d != 1 {
				t.Errorf("%d bits differ at the peer", d)
			}
			if d := difference(active.mem[:100], content); d != 0 {
				t.Errorf("%d bits differ at this side", d)
			}
		})
	}
}

// difference counts the bits that differ.
func difference(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// A read's data differs from the peer's data in one bit.
func TestFlipInvertsOneBitOfRead(t *testing.T) {
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: fault.AtOperation(1, fault.Flip(65))}))
	_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpRead, SGL: append(active.sge(0, 8), active.sge(64, 8)...), Remote: passive.readable(t)}})
	check(t, err)
	if res := active.next(t); res.Status != rdma.StatusSuccess {
		t.Fatalf("read: %+v", res)
	}
	if active.mem[64] != 2 || difference(active.mem, make([]byte, len(active.mem))) != 1 {
		t.Errorf("the sink is %v", active.mem[:80])
	}
}

// readable registers zeroed memory that the peer may read.
func (s *side) readable(t *testing.T) rdma.RemoteAddr {
	m, err := s.adapter.RegisterMemory(t.Context(), make([]byte, 64), rdma.AccessRemoteRead)
	check(t, err)
	return m.RemoteAddr()
}

// Failures are logged as warnings, all other events at debug level.
func TestLogToWarnsOfFailures(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		tracer := fault.LogTo(log)
		tracer.Event(fault.Posted{QueuePair: 7, Op: rdma.OpWrite, ID: 3, Bytes: 24, Action: fault.Drop()})
		tracer.Event(fault.Completed{Result: rdma.Result{Op: rdma.OpSend, ID: 4, Status: rdma.StatusIOTimeout}})
		tracer.Event(fault.Completed{Result: rdma.Result{Op: rdma.OpSend, ID: 5}})
		tracer.Event(fault.Controlled{Op: "connect", Object: "there", Err: context.Canceled})
		text := out.String()
		for want, debug := range map[string]bool{
			"level=DEBUG msg=posted pair=7 op=write id=3 bytes=24 flags=0 fault=drop":  true,
			`level=WARN msg=completed pair=0 op=send id=4 bytes=0 error="I/O timeout"`: false,
			"level=DEBUG msg=completed pair=0 op=send id=5 bytes=0\n":                  true,
			`level=WARN msg=connect object=there took=0s error="context canceled"`:     false,
		} {
			if got := strings.Contains(text, want); got != (!debug || level == slog.LevelDebug) {
				t.Errorf("level %v, %q: %v in\n%s", level, want, got, text)
			}
		}
	}
}
