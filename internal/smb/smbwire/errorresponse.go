package smbwire

const (
	errorResponseFixed = 8
	errorContextFixed  = 8
)

// ErrorResponse is the body of a response to a failed request. Details of the failure are in
// Contexts with dialect 3.1.1, and in Data before it.
//
// Source: [MS-SMB2 2.2.2]
type ErrorResponse struct {
	Contexts []ErrorContext
	// Data is sent if there are no contexts.
	Data []byte
}

// ErrorContext is one item of an ErrorResponse.
//
// Source: [MS-SMB2 2.2.2.1]
type ErrorContext struct {
	ID   uint32
	Data []byte
}

// AppendTo appends the body.
func (r *ErrorResponse) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, errorResponseFixed+1)
	b = append(b, uint8(len(r.Contexts)), 0)
	b = le.AppendUint32(b, 0)
	first := len(b)
	for i, c := range r.Contexts {
		if i > 0 {
			b = pad8(b, start)
		}
		b = le.AppendUint32(b, uint32(len(c.Data)))
		b = le.AppendUint32(b, c.ID)
		b = append(b, c.Data...)
	}
	if len(r.Contexts) == 0 {
		b = append(b, r.Data...)
	}
	n := len(b) - first
	le.PutUint32(b[start+4:], uint32(n))
	if n == 0 {
		b = append(b, 0) // the buffer holds at least one byte
	}
	return b
}
