package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// watchedProvider records every region that is registered with it.
type watchedProvider struct {
	rdma.Provider
	mu      sync.Mutex
	regions []rdma.MemoryRegion
}

func (p *watchedProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return &watchedAdapter{a, p}, err
}

type watchedAdapter struct {
	rdma.Adapter
	p *watchedProvider
}

func (a *watchedAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	r, err := a.Adapter.RegisterMemory(ctx, buf, access)
	if err == nil {
		a.p.mu.Lock()
		a.p.regions = append(a.p.regions, r)
		a.p.mu.Unlock()
	}
	return r, err
}

func (a *watchedAdapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	panic("the server makes a window")
}

// tap records all bytes that are written to the connections of a listener.
type tap struct {
	net.Listener
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (l *tap) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &tappedConn{c, l}, err
}

type tappedConn struct {
	net.Conn
	l *tap
}

func (c *tappedConn) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	c.l.bytes.Write(p)
	c.l.mu.Unlock()
	return c.Conn.Write(p)
}

// The server exposes no memory: no region of it has remote rights, and no handle
// of one goes on the wire.
//
// Source: [LWIO claim 2] [LWIO claim 16] [OP-100]
func TestServerExposesNoMemory(t *testing.T) {
	onWire := &tap{}
	p := &watchedProvider{Provider: iwarp.New(&iwarp.Config{
		Listen: func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", local.String())
			onWire.Listener = l
			return onWire, err
		},
	})}
	v := newEnv(t, envConfig{provider: p})
	c := v.client()
	fid := c.register(v.file("a", content(100)))
	c.want(ntstatus.Success, 100, c.readHeader(fid, 0, 100, 0), nil)
	c.want(ntstatus.Success, 4, writeHeader(fid, 0, 4), []byte("data"))
	c.want(ntstatus.Success, 0, controlHeader(wire.OpClose, fid), nil)

	onWire.mu.Lock()
	sent := onWire.bytes.Bytes()
	onWire.mu.Unlock()
	if len(sent) < 200 {
		t.Fatalf("only %d bytes were seen", len(sent))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.regions) < 2 {
		t.Fatalf("only %d regions were seen", len(p.regions))
	}
	for _, r := range p.regions {
		if a := r.Access(); a&(rdma.AccessRemoteRead|rdma.AccessRemoteWrite&^rdma.AccessLocalWrite) != 0 {
			t.Errorf("a region with remote rights: %#x", a)
		}
		token := uint32(r.RemoteAddr().Token)
		for _, b := range [][]byte{
			binary.LittleEndian.AppendUint32(nil, token), binary.BigEndian.AppendUint32(nil, token),
		} {
			if token != 0 && bytes.Contains(sent, b) {
				t.Errorf("the handle %#x went on the wire", token)
			}
		}
	}
}
