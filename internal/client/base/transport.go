package base

import "strings"

// TransportSMB is the Name of a transport that is SMB alone; the other names are names of
// RDMA providers.
const TransportSMB = "smb"

// Transport has the fields of lwio.Transport.
type Transport struct {
	Name        string
	Reason      string
	Skipped     []Skipped
	Addr        string
	Connections int
	Keyed       bool
	Encryption  string
}

// Skipped has the fields of lwio.Skipped.
type Skipped struct {
	Provider string
	Reason   error
}

// String returns provider and reason, and names the provider once.
func (s Skipped) String() string {
	text := s.Reason.Error()
	if strings.HasPrefix(text, s.Provider+": ") {
		return text
	}
	return s.Provider + ": " + text
}

// RDMA reports whether data moves by RDMA.
func (t Transport) RDMA() bool { return t.Name != TransportSMB && t.Name != "" }

// String returns one line: name, address, encryption, reason, and the skipped providers.
func (t Transport) String() string {
	var b strings.Builder
	b.WriteString(t.Name)
	if t.Addr != "" {
		b.WriteString(" " + t.Addr)
	}
	var notes []string
	if t.Encryption != "" {
		notes = append(notes, "encrypted with "+t.Encryption)
	}
	if t.Reason != "" {
		notes = append(notes, t.Reason)
	}
	for _, s := range t.Skipped {
		notes = append(notes, s.String())
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, "; ") + ")")
	}
	return b.String()
}
