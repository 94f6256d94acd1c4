// Package rsock lets programs of net.Conn and net.Listener use RDMA, and TCP where there is
// no RDMA: the switch of Winsock Direct in Go.
//
//	cfg := &rsock.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}}
//	l, err := rsock.Listen("tcp", "127.0.0.1:8080", cfg)
//	d := &rsock.Dialer{Config: cfg}
//	c, err := d.DialContext(ctx, "tcp", "127.0.0.1:8080")
//
// A Listener accepts TCP connections, and beside them those of RDMA listeners whose addresses
// follow from the TCP address. A Dialer has a table of subnets, which it makes from the
// addresses of its providers, and looks up whether the destination is on a subnet of one of
// them. Then it connects to the RDMA listener there; both sides negotiate buffers and move
// bytes by control messages and RDMA. A failure before the end of the negotiation leads to
// TCP; after it there is no way back. Conn.Transport returns the transport of a connection,
// and why it is not a preferred provider; Config.RequireRDMA refuses TCP.
//
// A refusal by the peer itself is not tried again over TCP: Admit returned false, the
// backlog is full, the listener is closing, the host cannot be reached.
//
// # Lifecycle
//
// A Dialer, a ListenConfig and a Config are safe for concurrent use and must not be changed
// or copied after their first use. A Listener owns the goroutines that accept; its Close
// waits for them and for handshakes in progress, and leaves accepted connections open. A
// connection that is closed while its peer is slow delivers the written data in the
// background; Drain of its Dialer or Listener waits for that. Adapters are opened with the
// first connection or listener that needs them and closed with the last.
//
// Source: [WSD §1], [WSD §3]
package rsock
