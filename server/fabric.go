package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"lwio/internal/evict"
	"lwio/internal/wire"
	"lwio/rdma"
)

// fabric is an open provider: an adapter, a listener, and the buffer pool of reads.
type fabric struct {
	name     string
	adapter  rdma.Adapter
	info     rdma.AdapterInfo
	listener rdma.Listener
	addr     rdma.Addr
	buffers  *bufferPool
	layout   layout
	// named: clients get the address, not only its port.
	named bool
	// immediate: reads may be completed by immediate data. [OP-86]
	immediate bool
}

// openFabric opens a provider and listens at an address, with a buffer pool of readBuffers bytes.
// Port 0 means a free port. An address that is not valid is for a fabric without IP addresses,
// which listens at a name of its choice.
func openFabric(ctx context.Context, p rdma.Provider, at netip.AddrPort, l *Limits, readBuffers int) (*fabric, error) {
	f := &fabric{name: p.Name()}
	if err := f.open(ctx, p, at, l, readBuffers); err != nil {
		f.close()
		return nil, fmt.Errorf("server: listen on %s: %w", f.name, err)
	}
	return f, nil
}

func (f *fabric) open(ctx context.Context, p rdma.Provider, at netip.AddrPort, l *Limits, readBuffers int) (err error) {
	if f.adapter, err = p.OpenAdapter(ctx, at.Addr()); err != nil {
		return err
	}
	f.info = f.adapter.Info()
	if f.info.MaxReceiveSGE < 2 {
		return fmt.Errorf("receives of two parts: %w", errors.ErrUnsupported)
	}
	if f.info.MaxCalleeData < wire.ConnectionStartSize {
		return fmt.Errorf("private data of %d bytes: %w", wire.ConnectionStartSize, errors.ErrUnsupported)
	}
	f.layout = newLayout(l, f.info)
	if f.buffers, err = newBufferPool(ctx, f.adapter, readBuffers, l.MaxRDMAWindowSize); err != nil {
		return err
	}
	if f.listener, err = rdma.Listen(ctx, f.adapter, rdma.Addr{Fabric: f.name, AddrPort: at}, 0); err != nil {
		return err
	}
	f.addr, err = f.listener.LocalAddr()
	return err
}

// block returns the address block of the fabric for NEGOTIATE. On IP fabrics the block holds the
// address only if Config.RDMAListen names it; otherwise the client uses the address at which it
// reached SMB.
//
// Source: [OP-38b] [OP-39]
func (f *fabric) block() wire.AddressBlock {
	in := wire.NetAddress{HostAddress: f.addr.Host[:], Discriminator: []byte(f.addr.Name)}
	if at := f.addr.AddrPort; at.IsValid() {
		in = wire.NetAddress{Discriminator: binary.BigEndian.AppendUint16(nil, at.Port())}
		if ip := at.Addr().Unmap(); f.named && !ip.IsUnspecified() {
			in.HostAddress = ip.AsSlice()
		}
	}
	return wire.AddressBlock{Name: f.name, Instances: []wire.NetAddress{in}}
}

// sharedMemory reports whether the clients of the fabric share memory with the server. Such clients
// send and receive without system calls.
func (f *fabric) sharedMemory() bool { return f.info.Caps.Has(rdma.CapDirectAlloc) }

// close releases all resources. Precondition: no connection is left.
func (f *fabric) close() {
	if f.listener != nil {
		f.listener.Close()
	}
	if f.buffers != nil {
		f.buffers.close()
	}
	if f.adapter != nil {
		f.adapter.Close()
	}
}

// accept takes connection requests until the listener is closed.
func (e *engine) accept(f *fabric) {
	if l, ok := f.listener.(rdma.KnownPeersListener); ok {
		l.SetKnownPeers(func(host netip.Addr) string { return e.conns.known.UserOf(evict.HostOf(host)) })
	}
	for {
		connector, err := f.adapter.CreateConnector()
		if err == nil {
			if err = f.listener.ConnectionRequest(e.ctx, connector); err == nil {
				e.admit(f, connector)
				continue
			}
			connector.Close()
		}
		if e.ctx.Err() != nil || e.isStopped() {
			return
		}
		e.log.Warn("lwio: accept failed, retrying", "provider", f.name, "error", err)
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(acceptPause):
		}
	}
}

// acceptPause is the delay after a failure to accept.
const acceptPause = 100 * time.Millisecond

// admit starts a connection, or rejects it if the table of connections is full.
//
// Source: [LWIO §Connection Authentication]
func (e *engine) admit(f *fabric, connector rdma.Connector) {
	addr, _ := connector.PeerAddr()
	log := e.log.With(slog.String("provider", f.name), slog.Any("peer", addr))
	c := newConn(e, f, connector, log, peer{addr.String(), evict.HostOf(addr.AddrPort.Addr())})
	if !e.conns.enter(c, func() { e.wg.Go(c.serve) }) {
		e.count.rejected.Add(1)
		e.noise.Warn(log, "lwio: connection rejected: too many")
		connector.Reject(nil)
		connector.Close()
		c.cancel(errShutdown)
	}
}
