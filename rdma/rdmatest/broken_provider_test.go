package rdmatest

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
)

// impatience is enough for events that happen. A case that waits for an event that does
// not happen waits this long.
const impatience = 100 * time.Millisecond

var errBroken = errors.New("broken on purpose")

// drops makes all requests of one kind vanish.
func drops(op rdma.Op) func(fault.Attempt) fault.Action {
	return func(a fault.Attempt) fault.Action {
		if a.Request.Op == op {
			return fault.Drop()
		}
		return fault.Pass()
	}
}

// brokenWays lists possible defects of a provider, and the cases that must detect each.
var brokenWays = []struct {
	name  string
	flaws flaws
	fault func(fault.Attempt) fault.Action
	found string
}{
	{name: "writes vanish", fault: drops(rdma.OpWrite), found: `connect/own-domain write/sizes write/gather write/then-send write/descending write/polled-word
		write/alloc message/inline message/read-fence random/model violation/bounds violation/wrap-around violation/token
		violation/rights violation/closed-region violation/other-adapter violation/close-is-final`},
	{name: "reads vanish", fault: drops(rdma.OpRead), found: `read/sizes read/scatter read/sink-rights
		read/after-write read/fence read/limits read/both-ways read/violations`},
	{name: "atomics vanish", fault: func(a fault.Attempt) fault.Action {
		if a.Request.Op.IsAtomic() {
			return fault.Drop()
		}
		return fault.Pass()
	}, found: "atomic/fetch-add atomic/compare-swap atomic/order atomic/limits atomic/many-connections atomic/violations"},
	{name: "atomics are plain", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			if a := &reqs[i].Atomic; reqs[i].Op == rdma.OpFetchAdd {
				a.Mask = 0
			} else {
				a.Mask, a.CompareMask = ^uint64(0), ^uint64(0)
			}
		}
		return q.Post(reqs)
	}}, found: "atomic/fetch-add atomic/compare-swap"},
	{name: "atomics take any buffer", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			if reqs[i].Op.IsAtomic() {
				reqs[i].Op = rdma.OpRead
			}
		}
		return q.Post(reqs)
	}}, found: "atomic/refused"},
	{name: "binds vanish", fault: drops(rdma.OpBind), found: "window/transfer window/token window/cycle"},
	{name: "invalidates vanish", fault: drops(rdma.OpInvalidate), found: `window/busy window/refused window/write-violations window/read-violations`},
	{name: "shared queues ignore every call", flaws: flaws{shared: func(q rdma.SharedReceiveQueue) rdma.SharedReceiveQueue { return brokenShared{q} }},
		found: "shared/notify shared/modify shared/close"},
	{name: "immediate data vanishes", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			reqs[i].Flags &^= rdma.FlagImmediate
		}
		return q.Post(reqs)
	}}, found: "immediate/result immediate/after-the-data immediate/shared"},
	{name: "files are empty", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			reqs[i].File, reqs[i].Flags = nil, reqs[i].Flags&^rdma.FlagOnlyIfCached
		}
		return q.Post(reqs)
	}}, found: "file/sizes file/end file/order file/only-if-cached file/refused"},
	{name: "files are written though they are too short", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			reqs[i].Flags &^= rdma.FlagOnlyIfCached
		}
		return q.Post(reqs)
	}}, found: "file/only-if-whole"},
	{name: "sends vanish", fault: drops(rdma.OpSend), found: `connect/dial-listen connect/loopback connect/dual-connect
		message/sizes shared/many-pairs shared/empty-waits shared/fair-share shared/waiting-closes end/no-receive-posted end/message-longer-than-receive flow/credits flow/full-depth flow/both-ways`},
	{name: "the second request of a pair is lost", fault: func(a fault.Attempt) fault.Action {
		if a.N == 2 {
			return fault.Drop()
		}
		return fault.Pass()
	}, found: "message/scatter-gather message/result message/receive-before-connect connect/complete flow/concurrent-posts"},
	{name: "the connection breaks", fault: func(a fault.Attempt) fault.Action {
		if a.N == 2 {
			return fault.Cut()
		}
		return fault.Pass()
	}, found: `queue/partial-post write/zero-length read/zero-length window/connection-ends notify/no-lost-wake-up adapter/all-at-maximum
		queue/initiator-full queue/too-many-entries queue/too-many-bytes queue/flags queue/unsupported-requests memory/bad-sge
		memory/receive-needs-local-write close/region-use`},
	{name: "requests are posted in reverse", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i, j := 0, len(reqs)-1; i < j; i, j = i+1, j-1 {
			reqs[i], reqs[j] = reqs[j], reqs[i]
		}
		return q.Post(reqs)
	}}, found: "message/order read/order window/order"},
	{name: "data by reference stays behind", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			if reqs[i].Flags&rdma.FlagByReference != 0 {
				reqs[i].SGL = reqs[i].SGL[:1]
			}
		}
		return q.Post(reqs)
	}}, found: "message/by-reference"},
	{name: "silence and solicitation are ignored", flaws: flaws{post: func(q rdma.QueuePair, reqs []rdma.Request) (int, error) {
		for i := range reqs {
			reqs[i].Flags &^= rdma.FlagSilentSuccess | rdma.FlagSolicitEvent
		}
		return q.Post(reqs)
	}}, found: "message/silent-success notify/silent notify/solicited"},
	{name: "results are changed", flaws: flaws{poll: func(q rdma.CompletionQueue, res []rdma.Result) (int, error) {
		n, err := q.Poll(res)
		for i := range res[:n] {
			res[i].QueuePairContext++
		}
		return n, err
	}}, found: "message/result queue/flush-unconnected end/peer-closes end/queue-pair-closes end/disconnect cq/shared end/post-after"},
	{name: "failures are called successes", flaws: flaws{poll: func(q rdma.CompletionQueue, res []rdma.Result) (int, error) {
		n, err := q.Poll(res)
		for i := range res[:n] {
			res[i].Status = rdma.StatusSuccess
		}
		return n, err
	}}, found: "end/message-longer-than-receive queue/receive-full close/queue-use close/adapter-closes-all cq/resize notify/pending-result"},
	{name: "results are lost", flaws: flaws{poll: func(q rdma.CompletionQueue, res []rdma.Result) (int, error) {
		n, err := q.Poll(res)
		return max(n-1, 0), err
	}}, found: "cq/poll-batches message/sizes"},
	{name: "an overrun goes unnoticed", flaws: flaws{
		poll: func(q rdma.CompletionQueue, res []rdma.Result) (int, error) {
			n, _ := q.Poll(res)
			return n, nil
		},
		notify: func(q rdma.CompletionQueue, ctx context.Context, kind rdma.NotifyKind) error {
			if err := q.Wait(ctx, kind); rdma.StatusOf(err) != rdma.StatusBufferOverflow {
				return err
			}
			return nil
		},
	}, found: "cq/overrun close/queue-use"},
	{name: "notifications end at once", flaws: flaws{notify: func(rdma.CompletionQueue, context.Context, rdma.NotifyKind) error {
		return nil
	}}, found: `notify/releases-all notify/once-per-result notify/errors notify/solicited notify/solicited-becomes-any
		notify/failure-satisfies-solicited cancel/notify notify/close cancel/ended-context`},
	{name: "notifications never end", flaws: flaws{notify: func(_ rdma.CompletionQueue, ctx context.Context, _ rdma.NotifyKind) error {
		<-ctx.Done()
		return rdma.CanceledBy(ctx, "notify", "")
	}}, found: `notify/pending-result notify/close notify/no-lost-wake-up notify/releases-all notify/solicited-becomes-any
		notify/failure-satisfies-solicited close/adapter-closes-all`},
	{name: "notifications do not know their context", flaws: flaws{notify: func(q rdma.CompletionQueue, _ context.Context, kind rdma.NotifyKind) error {
		return q.Wait(context.Background(), kind)
	}}, found: "cancel/notify notify/once-per-result"},
	{name: "a result is missed between two notifications", flaws: flaws{notify: func(q rdma.CompletionQueue, ctx context.Context, kind rdma.NotifyKind) error {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_ = q.Wait(short, kind)
		return q.Wait(ctx, kind)
	}}, found: "notify/pending-result notify/no-lost-wake-up"},
	{name: "flush does nothing", flaws: flaws{flush: func(rdma.QueuePair) error { return nil }},
		found: "queue/flush-unconnected queue/receive-full queue/flush-is-local cq/poll-batches notify/errors"},
	{name: "resize does nothing", flaws: flaws{resize: func(rdma.CompletionQueue, int) error { return nil }}, found: "cq/resize"},
	{name: "errors lose their status", flaws: flaws{err: func(error) error { return errBroken }},
		found: `adapter/foreign-address adapter/completion-queue-depth adapter/queue-pair-parameters shared/refused memory/invalid-buffer
			connect/private-data-too-long connect/dual-bind connect/dual-connect connect/invalid-state reject/by-listener reject/by-client
			reject/client-closes reject/listener-side-closes reject/peer-gave-up reject/no-listener reject/closing-listener connect/unroutable listen/dual-listen listen/address
			listen/address-in-use listen/close-ends-requests cancel/connect cancel/accept cancel/connection-request cancel/ended-context
			close/connector-use close/listener-use close/adapter-use close/adapter-closes-all end/disconnect`},
	{name: "limits are wrong", flaws: flaws{info: func(i rdma.AdapterInfo) rdma.AdapterInfo {
		i.MaxReadSGE, i.MaxCallerData, i.MaxCompletionQueueDepth = 1000, i.MaxCallerData+1, i.MaxCompletionQueueDepth+1
		i.MaxReceiveQueueDepth++
		i.Caps &^= rdma.CapWindows
		return i
	}}, found: "adapter/info adapter/unsupported adapter/completion-queue-depth connect/private-data connect/private-data-too-long cq/resize adapter/all-at-maximum"},
	{name: "queue pairs are larger than was asked", flaws: flaws{config: func(c rdma.QueuePairConfig) rdma.QueuePairConfig {
		c.ReceiveDepth, c.InitiatorDepth, c.MaxInitiatorSGE, c.InlineSize = c.ReceiveDepth+1, c.InitiatorDepth+1, c.MaxInitiatorSGE+1, c.InlineSize+1
		return c
	}}, found: "queue/receive-full queue/initiator-full queue/too-many-entries message/inline adapter/all-at-maximum"},
	{name: "addresses are not ours", flaws: flaws{addrs: func([]netip.Addr) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	}}, found: "adapter/addresses"},
	{name: "every region is writable", flaws: flaws{access: func(rdma.Access) rdma.Access { return rdma.AccessRemoteWrite }},
		found: "memory/register violation/rights memory/receive-needs-local-write"},
	// The race detector would also report the failure of violation/close-is-final.
	{name: "regions stay open", flaws: flaws{closeObject: map[string]func(func() error) error{"region": func(func() error) error { return nil }}},
		found: "close/region-use violation/closed-region memory/bad-sge"},
	{name: "windows stay open", flaws: flaws{closeObject: map[string]func(func() error) error{"window": func(func() error) error { return nil }}},
		found: "close/window-use"},
	{name: "regions share a token", flaws: flaws{remote: func(at rdma.RemoteAddr) rdma.RemoteAddr {
		return rdma.RemoteAddr{Addr: at.Addr, Token: 7}
	}}, found: "memory/many"},
	{name: "memory is short", flaws: flaws{alloc: func(n int) int { return max(n-50_000, 1) }}, found: "memory/alloc"},
	{name: "read limits are made up", flaws: flaws{limits: func(rdma.ReadLimits) rdma.ReadLimits { return rdma.ReadLimits{Inbound: 99} }},
		found: "connect/read-limits"},
	{name: "private data loses its end", flaws: flaws{private: func(p []byte) []byte { return p[:max(len(p)-1, 0)] }},
		found: "connect/private-data reject/by-listener reject/collision connect/many"},
	{name: "the peer is at another address", flaws: flaws{addr: func(rdma.Addr) rdma.Addr {
		return rdma.IPAddr("iwarp", netip.MustParseAddrPort("192.0.2.1:1"))
	}}, found: "connect/addresses"},
	{name: "the end of a connection is not reported", flaws: flaws{done: func() <-chan struct{} { return nil }},
		found: "end/peer-closes end/queue-pair-closes end/disconnect end/no-receive-posted end/post-after connect/queue-pair-once cq/overrun"},
	{name: "reject and disconnect do nothing", flaws: flaws{
		reject:     func(rdma.Connector, []byte) error { return nil },
		disconnect: func(rdma.Connector, context.Context) error { return nil },
	}, found: "reject/by-listener reject/by-client end/disconnect connect/invalid-state connect/queue-pair-once"},
	{name: "contexts are ignored", flaws: flaws{
		accept:  func(context.Context) context.Context { return context.Background() },
		connect: func(context.Context) context.Context { return context.Background() },
		request: func(context.Context) context.Context { return context.Background() },
	}, found: "cancel/connect cancel/accept cancel/connection-request"},
	{name: "connectors and listeners stay open", flaws: flaws{closeObject: map[string]func(func() error) error{
		"connector": func(func() error) error { return nil },
		"listener":  func(func() error) error { return nil },
	}}, found: `reject/client-closes reject/listener-side-closes reject/no-listener reject/closing-listener
		listen/close-ends-requests end/peer-closes close/connector-use close/listener-use`},
	{name: "queues and pairs stay open", flaws: flaws{closeObject: map[string]func(func() error) error{
		"queue pair":       func(func() error) error { return nil },
		"completion queue": func(func() error) error { return nil },
	}}, found: "close/queue-use close/queue-pair-use end/queue-pair-closes notify/close close/closed-parts"},
	{name: "adapters stay open", flaws: flaws{closeObject: map[string]func(func() error) error{"adapter": func(func() error) error { return nil }}},
		found: "close/adapter-use close/adapter-closes-all"},
	{name: "closing fails", flaws: flaws{closeObject: map[string]func(func() error) error{
		"listener": func(inner func() error) error { return errors.Join(inner(), errBroken) },
	}}, found: "close/twice"},
	{name: "idle trimming closes the queue pair", flaws: flaws{trim: func(q rdma.QueuePair) { _ = q.Close() }}, found: "trim-idle/messages trim-idle/unconnected"},
	{name: "every address is in use", flaws: flaws{bind: func(func() error) error { return rdma.StatusSharingViolation }},
		found: "connect/many connect/dual-bind"},
}

// broken returns the config of a provider with one defect.
func broken(f *flaws, decide func(fault.Attempt) fault.Action) Config {
	cfg := onIWARP()
	cfg.patience = impatience
	cfg.New = func(testing.TB) rdma.Provider {
		inner := rdma.Provider(iwarp.New(&iwarp.Config{ReplyTimeout: 4 * impatience, ReadyTimeout: 4 * impatience}))
		if decide != nil {
			return fault.Wrap(inner, &fault.Config{Fault: decide})
		}
		return brokenProvider{inner, f}
	}
	return cfg
}

// Every case fails with some defect. A case that cannot fail would check nothing.
func TestSuiteFindsFaults(t *testing.T) {
	if testing.Short() {
		skip.Test(t, "each case waits for its time limit")
	}
	leaveNoFailFiles(t)
	cases := make(map[string]Case)
	unfound := make(map[string]bool)
	for _, c := range Cases() {
		cases[c.Name], unfound[c.Name] = c, true
	}
	tried := 0
	for _, b := range brokenWays {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			tried++
			for _, name := range strings.Fields(b.found) {
				c, ok := cases[name]
				if !ok {
					t.Fatalf("there is no case %q", name)
				}
				rec := record(t, func(tb testing.TB) { runDeclared(tb, broken(&b.flaws, b.fault), c) })
				if !rec.Failed() {
					t.Errorf("%s passes although %s", name, b.name)
				}
				delete(unfound, name)
			}
		})
	}
	if tried < len(brokenWays) {
		return // -run selected some
	}
	for name := range unfound {
		t.Errorf("no defect makes %s fail", name)
	}
}

// leaveNoFailFiles keeps rapid from writing files about intended failures, and checks
// that it wrote none. Either rapid's own comparison or an earlier check may detect the
// failure.
func leaveNoFailFiles(t *testing.T) {
	f := flag.Lookup("rapid.nofailfile")
	before := f.Value.String()
	if err := f.Value.Set("true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob("testdata/rapid/" + t.Name() + "*"); len(left) > 0 {
			t.Errorf("failures that are wanted left %q", left)
		}
	})
}
