package rsock

import "strings"

// TransportTCP is the Name of a transport that is TCP; the other names are those of RDMA
// providers.
const TransportTCP = "tcp"

// Transport says what carries a connection, and why it is not something better.
type Transport struct {
	// Name is the RDMA provider, such as "shm" or "iwarp", or TransportTCP.
	Name string
	// Skipped says of each provider that was preferred why it is not used. On the
	// accepting side, which does not choose, it is empty.
	Skipped []Skipped
}

// Skipped is a provider that a connection could have used.
type Skipped struct {
	// Provider is its name.
	Provider string
	// Reason is what stood against it.
	Reason error
}

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return t.Name != TransportTCP && t.Name != "" }

// String is one line for people, as "tcp (shm: the address is not one of this host)".
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
