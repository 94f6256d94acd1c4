package lwio

import "lwio/internal/client/base"

// DefaultPort is the TCP port of a URL without one, 4450.
const DefaultPort = base.DefaultPort

// Scheme is the scheme of LWIO URLs, "lwio".
const Scheme = base.Scheme

// Target is a parsed URL.
type Target struct {
	// User and Password authenticate the client to SMB. HasPassword distinguishes an empty
	// password from none.
	User, Password string
	HasPassword    bool
	// Host is host:port, with the port of the URL or DefaultPort.
	Host string
	// Share is the name of the share.
	Share string
	// Path names a file or directory in the share, slash-separated and without a
	// leading slash; "" is the root of the share.
	Path string
	// Provider is the value of ?provider=: the name of the RDMA provider that must be used,
	// "smb" for SMB alone, or "" for the best transport.
	Provider string
	// Completion is the value of ?completion=: "adaptive", "polling" or "interrupt", or "" for
	// Config.Completion.
	Completion string
	// RequireEncryption is true for ?encryption=required, see Config.RequireEncryption.
	RequireEncryption bool
	// Kerberos is true for ?auth=kerberos: Config.Kerberos must be set.
	Kerberos bool
	// Connections is the value of ?connections=, the number of RDMA connections, or 0 for
	// Config.Connections.
	Connections int
	// AppInstance is the value of ?app=, or "" for Config.AppInstance.
	AppInstance string
}

// ParseURL parses lwio://user:password@host:port/share/path?provider=P&completion=C&encryption=required&auth=kerberos&connections=N&app=NAME.
// All parts but host and share are optional. User, password, share and path may be
// percent-encoded; the path may also contain spaces and number signs as they are. A percent sign
// itself is %25.
//
// Errors: an *Error whose text never contains the password.
func ParseURL(raw string) (*Target, error) {
	t, err := base.ParseURL(raw)
	return (*Target)(t), err
}

// String returns the URL, percent-encoded where necessary, with xxxxx in place of a password.
func (t *Target) String() string { return (*base.Target)(t).String() }
