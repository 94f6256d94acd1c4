package stream

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"testing"

	"lwio/rdma"
)

// without is a provider whose adapters lack some capabilities.
type without struct {
	rdma.Provider
	caps rdma.Caps
}

func (p without) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return adapterWithout{a, p.caps}, err
}

type adapterWithout struct {
	rdma.Adapter
	caps rdma.Caps
}

func (a adapterWithout) Info() rdma.AdapterInfo {
	info := a.Adapter.Info()
	info.Caps &^= a.caps
	return info
}

// TestProviderWithoutReadReceivesByWrite connects a side whose provider lacks WSPRdmaRead:
// the look-up says so, the negotiation tells the peer, and the peer writes large data.
//
// Source: [WSD §2.2], [WSD §5.3]
func TestProviderWithoutReadReceivesByWrite(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{wrapPassive: func(p rdma.Provider) rdma.Provider {
			return without{p, rdma.CapRead}
		}})
		if !a.c.canRead() || b.c.canRead() || a.c.peer.CanRead || !b.c.peer.CanRead {
			t.Errorf("reads: %t and %t, known of the peer: %t and %t", a.c.canRead(), b.c.canRead(), b.c.peer.CanRead, a.c.peer.CanRead)
		}
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		written := make(chan error, 1)
		go func() {
			_, err := a.Write(data)
			written <- err
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("data arrives changed, or not: %v", err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		if s := b.Stats(); s.RDMARead < uint64(len(data))/2 {
			t.Errorf("%d of %d bytes went by RDMA", s.RDMARead, len(data))
		}
	})
}
