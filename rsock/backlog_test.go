package rsock

import (
	"context"
	"net/netip"
	"testing"
)

// The oldest handshake of the host with most of them makes room; a negotiated connection never
// does.
func TestBacklogEvictsOldestHandshakeOfBusiestHost(t *testing.T) {
	var b backlog
	b.init(4)
	busy, quiet := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
	enter := func(host netip.Prefix) (*place, context.Context) {
		ctx, evict := context.WithCancelCause(t.Context())
		return b.enter(host, evict), ctx
	}
	first, firstCtx := enter(quiet)
	second, secondCtx := enter(busy)
	third, _ := enter(busy)
	fourth, _ := enter(quiet)
	b.leave(fourth)
	b.leave(fourth) // does nothing
	fifth, _ := enter(busy)
	sixth, _ := enter(quiet)
	if secondCtx.Err() == nil || firstCtx.Err() != nil || b.finish(second) {
		t.Error("the oldest handshake of the busiest host did not make room")
	}
	for _, p := range []*place{first, third, fifth, sixth} {
		if !b.finish(p) {
			t.Error("a handshake lost its place")
		}
	}
	if p, _ := enter(quiet); p != nil {
		t.Error("a handshake got a place beside four negotiated connections")
	}
	b.accepted()
	if p, _ := enter(quiet); p == nil {
		t.Error("a handshake got no place after AcceptConn")
	}
}
