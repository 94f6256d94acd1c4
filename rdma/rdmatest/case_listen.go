package rdmatest

import (
	"context"

	"lwio/rdma"
)

var listenCases = []Case{
	{Name: "listen/dual-listen", Source: "[ND NdDualListen], [ND Listener.Bind]", run: dualListen},
	{Name: "listen/address", Source: "[ND Listener.GetLocalAddress]", run: listenAddress},
	{Name: "listen/address-in-use", Source: "[ND Listener.Bind]", run: addressInUse},
	{Name: "listen/close-ends-requests", Source: "[ND Listener.GetConnectionRequest]", run: closeEndsRequests},
}

func dualListen(r *rig) {
	l, _ := r.listen(r.adapter())
	r.fails("second bind", l.Bind(r.ctx(), r.cfg.Addr), rdma.StatusAddressAlreadyAssociated)
	if err := l.Listen(1); err == nil {
		r.Error("listening twice succeeds")
	}
}

func listenAddress(r *rig) {
	a := r.adapter()
	l, err := a.CreateListener()
	r.ok("create listener", err)
	r.closeLater("listener", l)
	_, err = l.LocalAddr()
	r.fails("address of a listener that does not listen", err, rdma.StatusInvalidDeviceState)
	if err := l.Listen(0); err == nil {
		r.Error("a listener without an address listens")
	}
	_, addr := r.listen(a)
	if addr.Fabric != r.cfg.Addr.Fabric {
		r.Errorf("the listener is on fabric %q", addr.Fabric)
	}
	if addr.AddrPort.IsValid() && addr.AddrPort.Port() == 0 {
		r.Error("no port was picked")
	}
	_, other := r.listen(a)
	if other == addr {
		r.Errorf("two listeners are at %v", addr)
	}
}

func addressInUse(r *rig) {
	_, addr := r.listen(r.adapter())
	l, err := rdma.Listen(r.ctx(), r.adapter(), addr, 0)
	if err == nil {
		r.closeNow("listener", l)
	}
	r.fails("bind to an address in use", err, rdma.StatusSharingViolation)
}

func closeEndsRequests(r *rig) {
	a := r.adapter()
	l, _ := r.listen(a)
	var calls []*call
	for range 3 {
		c := r.connector(a)
		calls = append(calls, r.begin("connection request", func(ctx context.Context) error {
			return l.ConnectionRequest(ctx, c)
		}))
	}
	r.closeNow("listener", l)
	for _, c := range calls {
		r.fails(c.what, c.wait(), rdma.StatusCanceled)
	}
}
