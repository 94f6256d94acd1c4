// Package rsock lets programs of net.Conn and net.Listener use RDMA, and TCP where there is
// no RDMA: the switch of Winsock Direct in Go.
//
//	cfg := &rsock.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}}
//	l, err := rsock.Listen("tcp", "127.0.0.1:8080", cfg)
//	d := &rsock.Dialer{Config: cfg}
//	c, err := d.DialContext(ctx, "tcp", "127.0.0.1:8080")
//
// A Listener accepts TCP connections. It also has RDMA listeners, whose addresses follow
// from the TCP address. A Dialer makes a table of subnets from the addresses of its
// providers. If the destination is on a subnet of a provider, the Dialer connects to the
// RDMA listener of the destination. Both sides negotiate buffers, and move bytes by control
// messages and RDMA. If that fails before the end of the negotiation, the Dialer connects by
// TCP. After the negotiation a connection does not change its transport. Conn.Transport
// returns the transport of a connection, and the reasons against the preferred providers.
// Config.RequireRDMA refuses TCP.
//
// After some failures TCP is not tried, because it would fail too: Admit returned false, the
// backlog is full, the listener is closing, or the host cannot be reached.
//
// # Lifecycle
//
// A Dialer, a ListenConfig and a Config are safe for concurrent use and must not be changed
// or copied after their first use. A Listener owns the goroutines that accept. Its Close
// waits for these goroutines and for handshakes in progress, and leaves accepted connections
// open. A connection that is closed while its peer is slow delivers the written data in the
// background. Drain of the Dialer or Listener waits for the delivery. Adapters are opened
// with the first connection or listener that needs them and closed with the last.
//
// Source: [WSD §1], [WSD §3]
package rsock
