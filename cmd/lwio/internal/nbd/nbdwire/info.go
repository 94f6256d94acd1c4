package nbdwire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxName bounds the name of an export, or of a metadata context, in bytes.
//
// Source: [NBD §Conventions]
const MaxName = 4096

// Info is a kind of information about an export.
//
// Source: [NBD §Option types]
type Info uint16

// The kinds of information.
const (
	InfoExport      Info = 0
	InfoName        Info = 1
	InfoDescription Info = 2
	InfoBlockSize   Info = 3
)

// InfoRequest is the data of OptInfo and OptGo.
//
// Source: [NBD §Option types]
type InfoRequest struct {
	Name  string // of the export; "" is the default one
	Infos []Info
}

// AppendTo appends the encoded request.
func (r InfoRequest) AppendTo(b []byte) []byte {
	b = appendString(b, r.Name)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Infos)))
	for _, i := range r.Infos {
		b = binary.BigEndian.AppendUint16(b, uint16(i))
	}
	return b
}

// DecodeInfoRequest decodes the data of OptInfo and OptGo. Unknown kinds of information stay in the result.
//
// Errors: ErrMalformed.
func DecodeInfoRequest(b []byte) (InfoRequest, error) {
	name, rest, err := cutString(b)
	if err != nil {
		return InfoRequest{}, err
	}
	if len(rest) < 2 {
		return InfoRequest{}, fmt.Errorf("%w: no number of information requests", ErrMalformed)
	}
	n := int(binary.BigEndian.Uint16(rest))
	if rest = rest[2:]; len(rest) != 2*n {
		return InfoRequest{}, fmt.Errorf("%w: %d bytes for %d information requests", ErrMalformed, len(rest), n)
	}
	r := InfoRequest{Name: name}
	for ; len(rest) > 0; rest = rest[2:] {
		r.Infos = append(r.Infos, Info(binary.BigEndian.Uint16(rest)))
	}
	return r, nil
}

// AppendInfoExport appends the data of a RepInfo with the size of the export in bytes and its flags.
//
// Source: [NBD §Option reply types]
func AppendInfoExport(b []byte, size uint64, flags TransmissionFlags) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(InfoExport))
	b = binary.BigEndian.AppendUint64(b, size)
	return binary.BigEndian.AppendUint16(b, uint16(flags))
}

// AppendInfoText appends the data of a RepInfo with a text: InfoName or InfoDescription.
//
// Source: [NBD §Option reply types]
func AppendInfoText(b []byte, kind Info, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	return append(b, text...)
}

// BlockSizes are the sizes of requests, in bytes.
//
// Source: [NBD §Block size constraints]
type BlockSizes struct {
	// Minimum divides each offset and length. Preferred is the smallest size that is fast.
	Minimum, Preferred uint32
	// Maximum bounds the data of a request or its reply.
	Maximum uint32
}

// AppendTo appends the data of a RepInfo with the sizes.
func (s BlockSizes) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(InfoBlockSize))
	b = binary.BigEndian.AppendUint32(b, s.Minimum)
	b = binary.BigEndian.AppendUint32(b, s.Preferred)
	return binary.BigEndian.AppendUint32(b, s.Maximum)
}

// MetaQuery is the data of OptListMetaContext and OptSetMetaContext.
//
// Source: [NBD §Option types]
type MetaQuery struct {
	Name    string // of the export
	Queries []string
}

// AppendTo appends the encoded queries.
func (q MetaQuery) AppendTo(b []byte) []byte {
	b = appendString(b, q.Name)
	b = binary.BigEndian.AppendUint32(b, uint32(len(q.Queries)))
	for _, s := range q.Queries {
		b = appendString(b, s)
	}
	return b
}

// DecodeMetaQuery decodes the data of OptListMetaContext and OptSetMetaContext.
//
// Errors: ErrMalformed.
func DecodeMetaQuery(b []byte) (MetaQuery, error) {
	name, rest, err := cutString(b)
	if err != nil {
		return MetaQuery{}, err
	}
	if len(rest) < 4 {
		return MetaQuery{}, fmt.Errorf("%w: no number of queries", ErrMalformed)
	}
	n := binary.BigEndian.Uint32(rest)
	q := MetaQuery{Name: name}
	for rest = rest[4:]; n > 0; n-- {
		var s string
		if s, rest, err = cutString(rest); err != nil {
			return MetaQuery{}, err
		}
		q.Queries = append(q.Queries, s)
	}
	if len(rest) > 0 {
		return MetaQuery{}, fmt.Errorf("%w: %d bytes behind the queries", ErrMalformed, len(rest))
	}
	return q, nil
}

// appendString appends a string behind its length.
func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// cutString returns the string at the beginning of b, and the rest.
func cutString(b []byte) (s string, rest []byte, err error) {
	if len(b) < 4 {
		return "", nil, fmt.Errorf("%w: %d bytes where a string begins", ErrMalformed, len(b))
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return "", nil, fmt.Errorf("%w: a string of %d bytes in a message with %d more", ErrMalformed, n, len(b))
	}
	s = string(b[:n])
	if err := CheckName(s); err != nil {
		return "", nil, err
	}
	return s, b[n:], nil
}

// CheckName checks a string of a peer: the name of an export or of a metadata context.
//
// Errors: ErrMalformed.
//
// Source: [NBD §Conventions]
func CheckName(s string) error {
	switch {
	case len(s) > MaxName:
		return fmt.Errorf("%w: a string of %d bytes", ErrMalformed, len(s))
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return fmt.Errorf("%w: a string that is not UTF-8 without NUL", ErrMalformed)
	}
	return nil
}
