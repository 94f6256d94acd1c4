package rdmatest

import (
	"context"

	"lwio/rdma"
)

// meeting is a connection attempt in progress. The passive connector holds the request of
// the active one, and Connect waits.
type meeting struct {
	r               *rig
	active, passive *end
	listener        rdma.Listener
	addr            rdma.Addr
	connect         *call
}

// meet makes the active end request a connection, with private data.
func (r *rig) meet(active, passive *end, data []byte) *meeting {
	r.Helper()
	l, addr := r.listen(passive.adapter)
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	m := &meeting{r: r, active: active, passive: passive, listener: l, addr: addr}
	m.ask(data)
	return m
}

// ask connects and takes the request.
func (m *meeting) ask(data []byte) {
	m.r.Helper()
	m.connect = m.r.begin("connect", func(ctx context.Context) error {
		return m.active.conn.Connect(ctx, m.active.qp, m.addr, m.active.limits(), data)
	})
	err := m.listener.ConnectionRequest(m.r.ctx(), m.passive.conn)
	if err != nil {
		m.connect.stop()
		m.r.Fatalf("connection request: %v (connect: %v)", err, m.connect.wait())
	}
}

// accept starts Accept of the passive end, and returns when Connect of the active end has
// returned.
func (m *meeting) accept(data []byte) *call {
	m.r.Helper()
	accept := m.r.begin("accept", func(ctx context.Context) error {
		return m.passive.conn.Accept(ctx, m.passive.qp, m.passive.limits(), data)
	})
	m.r.ok("connect", m.connect.wait())
	return accept
}

// agree completes the connection.
func (m *meeting) agree() {
	m.r.Helper()
	accept := m.accept(nil)
	m.r.ok("complete connect", m.active.conn.CompleteConnect(m.r.ctx()))
	m.r.ok("accept", accept.wait())
}
