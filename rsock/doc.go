// Package rsock gives programs that speak net.Conn and net.Listener RDMA, and TCP where
// there is none: the switch of Winsock Direct in Go.
//
//	cfg := &rsock.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}}
//	l, err := rsock.Listen("tcp", "127.0.0.1:8080", cfg)
//	d := &rsock.Dialer{Config: cfg}
//	c, err := d.DialContext(ctx, "tcp", "127.0.0.1:8080")
//
// A Listener takes TCP connections, and beside them those of companions: RDMA listeners
// whose addresses follow from the TCP address. A Dialer looks up in a table, which it
// makes from the addresses of its providers, whether the destination is on a subnet of one
// of them, and then tries the companion there. Both sides then agree on buffers and move
// bytes by control messages and RDMA. Before that has begun, a failure leads to TCP; after
// it there is no way back. Conn.Transport tells what a connection got, and why not a better
// one; Config.RequireRDMA refuses everything else.
//
// What the peer itself refused is not tried again over TCP: a condition function that said
// no, a full backlog, a listener that is just closing, a host that cannot be reached.
//
// # Lifecycle
//
// A Dialer, a ListenConfig and a Config may be used by many goroutines and must not be
// changed or copied after their first use. A Listener owns the goroutines that accept; its
// Close waits for them and for handshakes under way, and leaves connections that were
// handed out alone. A connection that is closed while its peer is slow delivers in the
// background what was written; Drain of its Dialer or Listener waits for that. Adapters are opened with the first connection or listener that needs
// them and closed with the last.
//
// Source: [WSD §1], [WSD §3]
package rsock
