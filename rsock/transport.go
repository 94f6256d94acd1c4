package rsock

import "strings"

// TransportTCP is the name of TCP in Transport.Name and Request.Transport. All other names
// are names of RDMA providers.
const TransportTCP = "tcp"

// Transport is the transport of a connection, with the reasons against the preferred
// providers.
type Transport struct {
	// Name is the RDMA provider, such as "shm" or "iwarp", or TransportTCP.
	Name string
	// Skipped has the reason against each preferred provider that is not used. It is
	// empty on the accepting side, which does not choose the transport.
	Skipped []Skipped
}

// Skipped is a provider that a connection does not use.
type Skipped struct {
	// Provider is the name of the provider.
	Provider string
	// Reason is why the provider is not used.
	Reason error
}

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return t.Name != TransportTCP && t.Name != "" }

// String returns one line such as "tcp (shm: the address is not one of this host)".
func (t Transport) String() string {
	if len(t.Skipped) == 0 {
		return t.Name
	}
	notes := make([]string, len(t.Skipped))
	for i, s := range t.Skipped {
		notes[i] = s.Provider + ": " + s.Reason.Error()
	}
	return t.Name + " (" + strings.Join(notes, "; ") + ")"
}
