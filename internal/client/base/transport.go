package base

import "strings"

// TransportSMB is the Name of a transport that is SMB alone; the other names are
// those of RDMA providers.
const TransportSMB = "smb"

// Transport is, field by field, lwio.Transport.
type Transport struct {
	Name        string
	Reason      string
	Skipped     []string
	Addr        string
	Connections int
	Keyed       bool
}

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return t.Name != TransportSMB && t.Name != "" }

// String is one line for people.
func (t Transport) String() string {
	var b strings.Builder
	b.WriteString(t.Name)
	if t.Addr != "" {
		b.WriteString(" " + t.Addr)
	}
	if notes := append([]string{t.Reason}, t.Skipped...); len(t.Skipped) > 0 || t.Reason != "" {
		b.WriteString(" (" + strings.Join(notes, "; ") + ")")
	}
	return b.String()
}
