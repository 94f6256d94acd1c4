package rping_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"

	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// TestClientAndServerCompleteAllRounds runs the client against the server.
//
// Source: [RFC 5040 §5]
func TestClientAndServerCompleteAllRounds(t *testing.T) {
	ctx := t.Context()
	a, err := iwarp.New(nil).OpenAdapter(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := rdma.Listen(ctx, a, rdma.Addr{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{1, 2, 3, 4, 5, 1023, 65000, rping.MaxSize}
	for range 50 {
		sizes = append(sizes, 1+rand.IntN(rping.MaxSize))
	}
	type outcome struct {
		rounds  int
		private []byte
		err     error
	}
	served := make(chan outcome, 1)
	go func() {
		rounds, private, err := rping.Serve(context.Background(), a, l)
		served <- outcome{rounds, private, err}
	}()
	if err := rping.Client(ctx, a, addr, rping.ClientConfig{Sizes: sizes, PrivateData: []byte("hello")}); err != nil {
		t.Error(err)
	}
	if s := <-served; s.err != nil || s.rounds != len(sizes) || string(s.private) != "hello" {
		t.Errorf("served %d rounds, private data %q: %v", s.rounds, s.private, s.err)
	}
}
