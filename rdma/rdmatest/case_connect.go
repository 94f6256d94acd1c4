package rdmatest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"

	"lwio/rdma"
)

var connectCases = []Case{
	{Name: "connect/complete", Source: "[ND Connector.Connect], [ND Connector.CompleteConnect], [ND Connector.Accept]", run: connectComplete},
	{Name: "connect/dial-listen", Source: "[ND §7]", run: dialListen},
	{Name: "connect/private-data", Source: "[ND Connector.GetPrivateData], [ND ndmw]", run: privateData},
	{Name: "connect/private-data-too-long", Source: "[ND NdLargePrivateData]", run: privateDataTooLong},
	{Name: "connect/read-limits", Source: "[ND Connector.GetReadLimits]", run: readLimits},
	{Name: "connect/addresses", Source: "[ND Connector.GetLocalAddress], [ND Connector.GetPeerAddress]", run: connectAddresses},
	{Name: "connect/dual-bind", Source: "[ND NdDualConnection]", run: dualBind},
	{Name: "connect/dual-connect", Source: "[ND NdDualConnection]", run: dualConnect},
	{Name: "connect/queue-pair-once", Source: "[ND Connector.Disconnect]", run: queuePairOnce},
	{Name: "connect/invalid-state", Source: "[ND §7]", run: connectInvalidState},
	{Name: "connect/loopback", Source: "[ND ND2_ADAPTER_INFO AdapterFlags]", Needs: rdma.CapLoopback, run: loopback},
	{Name: "connect/own-domain", Source: "[ND Listener.GetConnectionRequest]", run: ownDomain},
	{Name: "connect/many", Source: "[ND ndconn]", run: connectMany},
}

func connectComplete(r *rig) {
	active, passive := r.pair(shape{})
	for _, e := range []*end{active, passive} {
		select {
		case <-e.conn.Done():
			r.Errorf("a new connection has ended: %v", e.conn.Err())
		default:
		}
		if err := e.conn.Err(); err != nil {
			r.Errorf("the error of a live connection is %v", err)
		}
	}
	active.deliver(passive)
	passive.deliver(active)
}

// ownDomain lets an adapter take a request that reached another adapter of the provider.
// The connection can access the regions of the adapter that took the request, and no
// region of the other adapter.
func ownDomain(r *rig) {
	a, p := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	front := r.adapter()
	strange := make([]byte, 64)
	other := r.region(front, strange, rdma.AccessRemoteWrite).RemoteAddr()
	l, addr := r.listen(front)
	p.receive(1, nil)
	c := r.dial(a, addr, p, l)
	fill(a.mem)
	a.post(rdma.Request{Op: rdma.OpSend}, rdma.Request{Op: rdma.OpWrite, SGL: a.sge(0, 8), Remote: p.at(0)})
	a.sent()
	a.sent()
	a.deliver(p)
	if res := p.received(); res.Status != rdma.StatusSuccess || !bytes.Equal(p.mem[:8], a.mem[:8]) {
		r.Errorf("message %+v, data %x", res, p.mem[:8])
	}
	a.post(rdma.Request{Op: rdma.OpWrite, SGL: a.sge(0, 8), Remote: other})
	r.ends("initiator", c)
	r.ends("target", p.conn)
	if !zero(strange) {
		r.Errorf("memory of the adapter that listened was written")
	}
}

// dial connects a to p, which takes the request from l. It returns the connector of a.
func (r *rig) dial(a *end, addr rdma.Addr, p *end, l rdma.Listener) rdma.Connector {
	r.Helper()
	accept := r.begin("accept", func(ctx context.Context) error {
		if err := l.ConnectionRequest(ctx, p.conn); err != nil {
			return err
		}
		return p.conn.Accept(ctx, p.qp, rdma.ReadLimits{}, nil)
	})
	c, err := rdma.Dial(r.ctx(), a.adapter, a.qp, addr, rdma.DialConfig{})
	r.ok("dial", err)
	r.closeLater("connector", c)
	r.ok("accept", accept.wait())
	return c
}

func dialListen(r *rig) {
	a, p := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	l, addr := r.listen(p.adapter)
	p.receive(1, nil)
	r.dial(a, addr, p, l)
	a.post(rdma.Request{Op: rdma.OpSend})
	if res := p.received(); res.Status != rdma.StatusSuccess || res.ID != 1 {
		r.Errorf("receive: %+v", res)
	}
}

func privateData(r *rig) {
	info := r.adapter().Info()
	for _, c := range []struct{ caller, callee int }{
		{0, 0}, {1, info.MaxCalleeData}, {39, 39}, {info.MaxCallerData, 1},
	} {
		caller, callee := make([]byte, min(c.caller, info.MaxCallerData)), make([]byte, min(c.callee, info.MaxCalleeData))
		fill(caller)
		fill(callee)
		active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
		passive.receive(0, nil)
		m := r.meet(active, passive, caller)
		r.hasPrivateData("request", passive.conn, caller)
		accept := m.accept(callee)
		r.hasPrivateData("acceptance", active.conn, callee)
		r.ok("complete connect", active.conn.CompleteConnect(r.ctx()))
		r.ok("accept", accept.wait())
	}
}

// hasPrivateData compares the private data of a connector, and checks that it is a copy.
func (r *rig) hasPrivateData(what string, c rdma.Connector, want []byte) {
	r.Helper()
	for range 2 {
		got, err := c.PrivateData()
		r.ok("private data of the "+what, err)
		if !prefixed(got, want) {
			r.Errorf("private data of the %s is %x, want %x", what, got, want)
		}
		clear(got)
	}
}

// privateDataTooLong checks that the call refuses a length above the limit, and that the
// same connectors then succeed.
func privateDataTooLong(r *rig) {
	info := r.adapter().Info()
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	l, addr := r.listen(passive.adapter)
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	for _, n := range []int{info.MaxCallerData + 1, 1 << 16, 1 << 24} {
		err := active.conn.Connect(r.ctx(), active.qp, addr, rdma.ReadLimits{}, make([]byte, n))
		r.fails("connect with too much private data", err, rdma.StatusInvalidBufferSize)
	}
	m := &meeting{r: r, active: active, passive: passive, listener: l, addr: addr}
	m.ask(make([]byte, info.MaxCallerData))
	passive.receive(0, nil)
	for _, n := range []int{info.MaxCalleeData + 1, 1 << 16, 1 << 24} {
		err := passive.conn.Accept(r.ctx(), passive.qp, rdma.ReadLimits{}, make([]byte, n))
		r.fails("accept with too much private data", err, rdma.StatusInvalidBufferSize)
	}
	accept := m.accept(make([]byte, info.MaxCalleeData))
	r.ok("complete connect", active.conn.CompleteConnect(r.ctx()))
	r.ok("accept", accept.wait())
}

func readLimits(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	info := active.adapter.Info()
	l, addr := r.listen(passive.adapter)
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	offer := rdma.ReadLimits{Inbound: 3, Outbound: 5}
	connect := r.begin("connect", func(ctx context.Context) error {
		return active.conn.Connect(ctx, active.qp, addr, offer, nil)
	})
	r.ok("connection request", l.ConnectionRequest(r.ctx(), passive.conn))
	got, err := passive.conn.ReadLimits()
	r.ok("read limits of the request", err)
	most := rdma.ReadLimits{Inbound: min(5, info.MaxInboundReadLimit), Outbound: min(3, info.MaxOutboundReadLimit)}
	if got != most {
		r.Errorf("limits of the request are %+v, want %+v", got, most)
	}
	passive.receive(0, nil)
	accept := r.begin("accept", func(ctx context.Context) error {
		return passive.conn.Accept(ctx, passive.qp, rdma.ReadLimits{Inbound: 1 << 20, Outbound: 2}, nil)
	})
	r.ok("connect", connect.wait())
	got, err = active.conn.ReadLimits()
	r.ok("read limits of the acceptance", err)
	most = rdma.ReadLimits{Inbound: min(2, info.MaxInboundReadLimit), Outbound: min(5, info.MaxOutboundReadLimit)}
	if got != most {
		r.Errorf("limits of the acceptance are %+v, want %+v", got, most)
	}
	r.ok("complete connect", active.conn.CompleteConnect(r.ctx()))
	r.ok("accept", accept.wait())
}

func connectAddresses(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	_, err := passive.conn.LocalAddr()
	r.fails("local address before the connection", err, rdma.StatusConnectionInvalid)
	_, err = passive.conn.PeerAddr()
	r.fails("peer address before the connection", err, rdma.StatusConnectionInvalid)
	passive.receive(0, nil)
	m := r.meet(active, passive, nil)
	m.agree()
	addr := func(what string, f func() (rdma.Addr, error)) rdma.Addr {
		a, err := f()
		r.ok(what, err)
		if a.Fabric != r.cfg.Addr.Fabric || a.String() == "" {
			r.Errorf("%s is %+v", what, a)
		}
		return a
	}
	al, ap := addr("local address, active", active.conn.LocalAddr), addr("peer address, active", active.conn.PeerAddr)
	pl, pp := addr("local address, passive", passive.conn.LocalAddr), addr("peer address, passive", passive.conn.PeerAddr)
	if ap != m.addr || pl != m.addr {
		r.Errorf("the listener is at %v, the ends report %v and %v", m.addr, ap, pl)
	}
	if al != pp {
		r.Errorf("the active end is at %v for itself and at %v for its peer", al, pp)
	}
}

func dualBind(r *rig) {
	a := r.adapter()
	c := r.connector(a)
	r.ok("bind", c.Bind(r.ctx(), rdma.Addr{}))
	err := c.Bind(r.ctx(), rdma.Addr{})
	r.fails("second bind", err, rdma.StatusAddressAlreadyAssociated)
}

func dualConnect(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	passive.receive(0, nil)
	m := r.meet(active, passive, nil)
	again := func(when string) {
		err := active.conn.Connect(r.ctx(), active.qp, m.addr, rdma.ReadLimits{}, nil)
		r.fails("connect while "+when, err, rdma.StatusConnectionActive)
	}
	again("connecting")
	accept := m.accept(nil)
	again("accepted")
	r.ok("complete connect", active.conn.CompleteConnect(r.ctx()))
	r.ok("accept", accept.wait())
	again("connected")
	err := passive.conn.Accept(r.ctx(), passive.qp, rdma.ReadLimits{}, nil)
	r.fails("second accept", err, rdma.StatusConnectionActive)
	active.post(rdma.Request{Op: rdma.OpSend})
	if res := passive.received(); res.Status != rdma.StatusSuccess {
		r.Errorf("receive after all that: %v", res.Status)
	}
}

// queuePairOnce checks that a queue pair serves only one connection.
func queuePairOnce(r *rig) {
	active, passive := r.pair(shape{})
	r.ok("disconnect", active.conn.Disconnect(r.ctx()))
	r.ends("peer", passive.conn)
	_, addr := r.listen(passive.adapter)
	c := r.connector(active.adapter)
	r.ok("bind", c.Bind(r.ctx(), rdma.Addr{}))
	if err := c.Connect(r.ctx(), active.qp, addr, rdma.ReadLimits{}, nil); err == nil {
		r.Error("a queue pair is connected for the second time")
	} else if c.Err() == nil && rdma.StatusOf(err) == rdma.StatusCanceled {
		r.Errorf("connect of a used queue pair waits: %v", err)
	}
}

func connectInvalidState(r *rig) {
	e := r.end(r.adapter(), shape{})
	_, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}})
	r.fails("post on an unconnected queue pair", err, rdma.StatusConnectionInvalid)
	r.fails("complete connect without connect", e.conn.CompleteConnect(r.ctx()), rdma.StatusConnectionInvalid)
	r.fails("disconnect without connection", e.conn.Disconnect(r.ctx()), rdma.StatusConnectionInvalid)
	if err := e.conn.Accept(r.ctx(), e.qp, rdma.ReadLimits{}, nil); err == nil {
		r.Error("a connector without a request accepts")
	}
	if err := e.conn.Reject(nil); err == nil {
		r.Error("a connector without a request rejects")
	}
	if _, err := e.conn.PrivateData(); err == nil {
		r.Error("a connector without a peer has private data")
	}
	if _, err := e.conn.ReadLimits(); err == nil {
		r.Error("a connector without a peer has read limits")
	}
	select {
	case <-e.conn.Done():
		r.Error("a connection that never was has ended")
	default:
	}
}

func loopback(r *rig) {
	a := r.adapter()
	active, passive := r.end(a, shape{}), r.end(a, shape{})
	r.join(active, passive)
	active.deliver(passive)
	passive.deliver(active)
}

// connectMany sends many requests at once, and gives each to one waiting connector.
func connectMany(r *rig) {
	const n = 12
	active, passive := r.adapter(), r.adapter()
	l, addr := r.listen(passive)
	accepted := make(chan uint64, n)
	var calls []*call
	for range n {
		p := r.end(passive, shape{depth: 2})
		p.receive(0, nil)
		calls = append(calls, r.begin("accept", func(ctx context.Context) error {
			if err := l.ConnectionRequest(ctx, p.conn); err != nil {
				return err
			}
			data, err := p.conn.PrivateData()
			if err != nil {
				return err
			}
			if len(data) == 0 {
				return errors.New("the private data is gone")
			}
			accepted <- uint64(data[0])
			return p.conn.Accept(ctx, p.qp, rdma.ReadLimits{}, nil)
		}))
	}
	for i := range n {
		a := r.end(active, shape{depth: 2})
		calls = append(calls, r.begin("connect", func(ctx context.Context) error {
			if err := a.conn.Bind(ctx, rdma.Addr{}); err != nil {
				return err
			}
			if err := a.conn.Connect(ctx, a.qp, addr, rdma.ReadLimits{}, []byte{byte(i + 1)}); err != nil {
				return err
			}
			return a.conn.CompleteConnect(ctx)
		}))
	}
	for _, c := range calls {
		r.ok(c.what, c.wait())
	}
	seen := make(map[uint64]bool)
	for range n {
		seen[<-accepted] = true
	}
	if len(seen) != n {
		r.Errorf("%d connections came from %d peers", n, len(seen))
	}
}

// portRetries is the number of times in a case that another process may take a released
// port at once.
const portRetries = 2

// refusedAddr returns an address without a listener.
func (r *rig) refusedAddr(a rdma.Adapter) rdma.Addr {
	r.Helper()
	l, err := rdma.Listen(r.ctx(), a, r.cfg.Addr, 0)
	r.ok("listen", err)
	addr, err := l.LocalAddr()
	r.ok("address of the listener", err)
	r.closeNow("listener", l)
	if addr.AddrPort.IsValid() && addr.AddrPort.Port() == 0 {
		r.Fatalf("the listener has address %v", netip.AddrPort(addr.AddrPort))
	}
	return addr
}
