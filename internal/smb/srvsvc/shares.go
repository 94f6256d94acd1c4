package srvsvc

import (
	"slices"
	"strings"
)

// Share is a share as clients see it.
type Share struct {
	Name string
	Type ShareType
	// Remark is a description for people.
	Remark string
}

// ShareType is the kind of a share.
//
// Source: [MS-SRVS 2.2.2.4]
type ShareType uint32

// The kinds of shares.
const (
	Disk ShareType = 0
	// Pipes is the share of the named pipes. Its name is reserved, so it is special.
	Pipes ShareType = 0x80000003
)

// Numbers of the calls.
//
// Source: [MS-SRVS 3.1.4]
const (
	callShareEnum    = 15
	callShareGetInfo = 16
)

// Results of the calls.
//
// Source: [MS-ERREF 2.2]
const (
	resultSuccess      = 0
	resultInvalidLevel = 124
	resultNoShare      = 2310
)

// Serve returns the response to one request: one or several PDUs, each a message of the pipe.
// shares are the shares that the client may see. Errors: ErrMalformed.
func Serve(request []byte, shares []Share) ([][]byte, error) {
	h, body, err := decodeHeader(request)
	if err != nil {
		return nil, err
	}
	switch h.kind {
	case kindBind, kindAlterContext:
		ack, err := bind(&h, body)
		if err != nil {
			return nil, err
		}
		return [][]byte{ack}, nil
	case kindRequest:
		return call(&h, body, shares)
	}
	return nil, malformed("kind")
}

// call serves a call.
//
// Source: [C706 12.6.4.9]
func call(h *header, body []byte, shares []Share) ([][]byte, error) {
	if len(body) < callSize {
		return nil, malformed("request")
	}
	contextID, operation := le.Uint16(body[4:]), le.Uint16(body[6:])
	stub := body[callSize:]
	if h.flags&flagObject != 0 {
		if len(stub) < objectSize {
			return nil, malformed("object")
		}
		stub = stub[objectSize:]
	}
	refuse := func(code uint32) ([][]byte, error) { return [][]byte{fault(h.callID, contextID, code)}, nil }
	if h.flags&flagsWhole != flagsWhole || h.authLength != 0 {
		return refuse(faultProtocol)
	}
	in := reader{b: stub}
	var out writer
	switch operation {
	case callShareEnum:
		shareEnum(&in, &out, shares)
	case callShareGetInfo:
		shareGetInfo(&in, &out, shares)
	default:
		return refuse(faultOperationRange)
	}
	if in.err != nil {
		return refuse(faultBadStubData)
	}
	return response(h.callID, contextID, out.b), nil
}

// shareEnum serves NetrShareEnum. The preferred size of the result is a wish: the result has all
// shares from the resume handle on.
//
// Source: [MS-SRVS 3.1.4.8], [MS-SRVS 2.2.4.38]
func shareEnum(in *reader, out *writer, shares []Share) {
	in.optionalString() // the name of the server
	level := in.uint32()
	if in.uint32() != level || !enumerable(level) {
		in.err = malformed("level")
	}
	if in.uint32() != 0 { // the container for the result
		in.uint32()
		if in.uint32() != 0 {
			in.err = malformed("shares in a request")
		}
	}
	in.uint32() // the preferred size
	resumes, from := in.uint32() != 0, uint32(0)
	if resumes {
		from = in.uint32()
	}
	if in.err != nil {
		return
	}
	shares = shares[min(uint64(from), uint64(len(shares))):]
	result := uint32(resultSuccess)
	out.uint32(level)
	out.uint32(level)
	if offered(level) {
		out.pointer()
		out.uint32(uint32(len(shares)))
		out.pointer()
		out.uint32(uint32(len(shares)))
		out.shares(level, shares)
	} else {
		shares, result = nil, resultInvalidLevel
		out.uint32(0)
	}
	out.uint32(uint32(len(shares)))
	if resumes {
		out.pointer() // of the resume handle: nothing is left
	}
	out.uint32(0)
	out.uint32(result)
}

// shareGetInfo serves NetrShareGetInfo.
//
// Source: [MS-SRVS 3.1.4.10]
func shareGetInfo(in *reader, out *writer, shares []Share) {
	in.optionalString() // the name of the server
	name := in.string()
	level := in.uint32()
	if in.err != nil {
		return
	}
	out.uint32(level)
	i := slices.IndexFunc(shares, func(s Share) bool { return strings.EqualFold(s.Name, name) })
	switch {
	case !offered(level):
		if known(level) {
			out.uint32(0)
		}
		out.uint32(resultInvalidLevel)
	case i < 0:
		out.uint32(0)
		out.uint32(resultNoShare)
	default:
		out.pointer()
		out.shares(level, shares[i:i+1])
		out.uint32(resultSuccess)
	}
}

// offered reports whether the server has the level of information about shares.
//
// Source: [MS-SRVS 2.2.4.22], [MS-SRVS 2.2.4.23]
func offered(level uint32) bool { return level <= 1 }

// enumerable reports whether a level of NetrShareEnum exists. A call with any other level has no
// valid form.
//
// Source: [MS-SRVS 2.2.3.5]
func enumerable(level uint32) bool {
	switch level {
	case 0, 1, 2, 501, 502, 503:
		return true
	}
	return false
}

// known reports whether a level of NetrShareGetInfo exists. The result of any other level has no
// pointer to information.
//
// Source: [MS-SRVS 2.2.3.6]
func known(level uint32) bool {
	switch level {
	case 1004, 1005, 1006, 1501:
		return true
	}
	return enumerable(level)
}

// shares writes information about shares: first the fixed parts of all, then their strings.
func (w *writer) shares(level uint32, list []Share) {
	for _, s := range list {
		w.pointer()
		if level == 1 {
			w.uint32(uint32(s.Type))
			w.pointer()
		}
	}
	for _, s := range list {
		w.string(s.Name)
		if level == 1 {
			w.string(s.Remark)
		}
	}
}
