package lwio

import "lwio/internal/client/base"

// DefaultPort is the TCP port of a server whose URL names none.
const DefaultPort = base.DefaultPort

// Scheme is the scheme of the URLs.
const Scheme = base.Scheme

// Target is a parsed URL.
type Target struct {
	// User and Password sign in to SMB; HasPassword tells an empty password from
	// none.
	User, Password string
	HasPassword    bool
	// Host is host:port, with the port that was typed or DefaultPort.
	Host string
	// Share is the name of the share.
	Share string
	// Path names a file or directory in the share, slash-separated and without a
	// leading slash; "" is the root of the share.
	Path string
	// Provider is the value of ?provider=: an RDMA provider that must be used,
	// "smb" for SMB alone, or "" for the best.
	Provider string
	// Completion is the value of ?completion=: "adaptive", "polling", "interrupt"
	// or "" for the default.
	Completion string
	// Connections is the value of ?connections=: how many RDMA connections to make, 0 for
	// the default.
	Connections int
}

// ParseURL reads lwio://user:password@host:port/share/path?provider=P&completion=C&connections=N.
// User, password, share and path may be percent-encoded; the path may also be
// typed with spaces and number signs as they are. A percent sign that stands for
// itself is typed %25.
//
// The text of an error never contains the password.
//
// Source: design, the command
func ParseURL(raw string) (*Target, error) {
	t, err := base.ParseURL(raw)
	return (*Target)(t), err
}

// String is the URL with everything encoded that needs to be, and with the
// password, if there is one, replaced by xxxxx.
func (t *Target) String() string { return (*base.Target)(t).String() }
