package lwio

import "lwio/internal/client/base"

// TransportSMB is the Name of a transport that is SMB alone; the other names are
// those of RDMA providers.
const TransportSMB = base.TransportSMB

// Transport describes the carrier of the data of a client or a file, with the reason.
type Transport struct {
	// Name is the RDMA provider, such as "shm" or "iwarp", or TransportSMB.
	Name string
	// Reason is why it is this one, and for SMB why not RDMA.
	Reason string
	// Skipped says of each RDMA provider that the client would have preferred why
	// it is not used, as in "shm: the server is on another host".
	Skipped []string
	// Addr is the address at the server that the data goes to.
	Addr string
	// Connections is how many RDMA connections there are now, 0 for SMB. The other fields
	// are about the first of them.
	Connections int
	// Keyed tells whether both sides of the RDMA connection proved to know the key
	// of the SMB session, rather than only the text's unkeyed signature. [OP-46b]
	Keyed bool
}

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return base.Transport(t).RDMA() }

// String is one line for people.
func (t Transport) String() string { return base.Transport(t).String() }
