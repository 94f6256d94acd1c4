package lwio

import "lwio/internal/client/base"

// TransportSMB is the Transport.Name of a client or a file whose data moves over SMB alone,
// "smb". All other names are names of RDMA providers.
const TransportSMB = base.TransportSMB

// Transport describes how the data of a client or a file moves, and why.
type Transport struct {
	// Name is the name of the RDMA provider, such as "shm" or "iwarp", or TransportSMB.
	Name string
	// Reason tells how the server was authenticated over RDMA, and for SMB why RDMA is not used.
	Reason string
	// Skipped lists providers that are not used: providers that failed, and providers before
	// Name in Config.Providers. The order of the server decides which provider is used.
	Skipped []Skipped
	// Addr is the address of the server on the fabric of the provider.
	Addr string
	// Connections is the current number of RDMA connections, 0 for SMB. The other fields
	// describe the first of them.
	Connections int
	// Keyed reports whether both sides proved that they know a key of the SMB session. Without
	// it, see Config.AllowMD5. [OP-46b]
	Keyed bool
	// Encryption is the cipher of the data, such as "AES-128-GCM": of SMB, or of a sealed RDMA
	// connection. It is "" for data that is not encrypted, over shm too. See
	// Config.RequireEncryption.
	Encryption string
}

// Skipped is a provider that a client does not use.
type Skipped struct {
	// Provider is the name of the provider.
	Provider string
	// Reason is the cause. It may wrap ErrNotOffered or ErrOtherHost.
	Reason error
}

// String returns provider and reason, as in "shm: the server is on another host".
func (s Skipped) String() string { return base.Skipped(s).String() }

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return t.Name != TransportSMB && t.Name != "" }

// String returns all fields but Connections and Keyed in one line for a log.
func (t Transport) String() string {
	engine := base.Transport{Name: t.Name, Reason: t.Reason, Addr: t.Addr, Encryption: t.Encryption}
	for _, s := range t.Skipped {
		engine.Skipped = append(engine.Skipped, base.Skipped(s))
	}
	return engine.String()
}

// transportOf returns a description by the engine as one of this package.
func transportOf(engine base.Transport) Transport {
	t := Transport{
		Name: engine.Name, Reason: engine.Reason, Addr: engine.Addr,
		Connections: engine.Connections, Keyed: engine.Keyed, Encryption: engine.Encryption,
	}
	for _, s := range engine.Skipped {
		t.Skipped = append(t.Skipped, Skipped(s))
	}
	return t
}
