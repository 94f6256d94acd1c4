package smbwire

const (
	errorResponseFixed = 8
	errorContextFixed  = 8
)

// ErrorResponse is the body of a response whose status says that the request
// failed. With dialect 3.1.1, Contexts may hold what is known about the failure;
// before it, Data.
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

// DecodeErrorResponse decodes a body.
func DecodeErrorResponse(body []byte) (ErrorResponse, error) {
	const name, field = "ERROR response", "ErrorData"
	if err := checkBody(name, body, errorResponseFixed, errorResponseFixed+1); err != nil {
		return ErrorResponse{}, err
	}
	data, err := rest(name, field, body, errorResponseFixed, le.Uint32(body[4:]))
	count := int(body[2])
	if err != nil || count == 0 {
		return ErrorResponse{Data: data}, err
	}
	r := ErrorResponse{Contexts: make([]ErrorContext, 0, count)}
	for {
		if len(data) < errorContextFixed {
			return ErrorResponse{}, fault(name, field, ErrShort)
		}
		n := le.Uint32(data)
		item, err := rest(name, field, data, errorContextFixed, n)
		if err != nil {
			return ErrorResponse{}, err
		}
		r.Contexts = append(r.Contexts, ErrorContext{ID: le.Uint32(data[4:]), Data: item})
		if len(r.Contexts) == count {
			return r, nil
		}
		next := (errorContextFixed + int64(n) + 7) &^ 7
		if next > int64(len(data)) {
			return ErrorResponse{}, fault(name, field, ErrShort)
		}
		data = data[next:]
	}
}
