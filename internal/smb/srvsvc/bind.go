package srvsvc

// syntaxSize is the length of the id of an interface or of a transfer syntax: a UUID and a version.
const syntaxSize = 20

type syntax [syntaxSize]byte

var (
	// serverService is 4b324fc8-1670-01d3-1278-5a47bf6ee188, version 3.0.
	//
	// Source: [MS-SRVS 1.9]
	serverService = syntax{0xC8, 0x4F, 0x32, 0x4B, 0x70, 0x16, 0xD3, 0x01, 0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88, 3}
	// ndr32 is 8a885d04-1ceb-11c9-9fe8-08002b104860, version 2.0.
	//
	// Source: [C706 I]
	ndr32 = syntax{0x04, 0x5D, 0x88, 0x8A, 0xEB, 0x1C, 0xC9, 0x11, 0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60, 2}
)

// Results of a presentation context, and their reasons.
//
// Source: [C706 12.6.3.1]
const (
	resultAccepted  = 0
	resultRejected  = 2
	reasonInterface = 1
	reasonSyntax    = 2
)

// Reasons of a refused bind.
//
// Source: [C706 12.6.3.1], [MS-RPCE 2.2.2.5]
const (
	refusedVersion        = 4
	refusedAuthentication = 8
)

const (
	bindFixed    = 12
	contextFixed = 4
)

// pipeAddress is the secondary address in the answer to a bind.
const pipeAddress = `\PIPE\srvsvc` + "\x00"

// bind answers a bind or the change of a context.
//
// Source: [C706 12.6.4.3], [C706 12.6.4.4]
func bind(h *header, body []byte) ([]byte, error) {
	switch {
	case h.version != 5 || h.minor > 1:
		return refuseBind(h.callID, refusedVersion), nil
	case h.authLength != 0:
		// The session of SMB has authenticated the user.
		return refuseBind(h.callID, refusedAuthentication), nil
	case len(body) < bindFixed:
		return nil, malformed("bind")
	}
	var results []byte
	n := int(body[8])
	list := body[bindFixed:]
	for range n {
		result, rest, err := chooseSyntax(list)
		if err != nil {
			return nil, err
		}
		results, list = append(results, result...), rest
	}
	ack := le.AppendUint16(nil, min(le.Uint16(body[2:]), maxFragment)) // sent by the server: received by the client
	ack = le.AppendUint16(ack, min(le.Uint16(body), maxFragment))
	ack = le.AppendUint32(ack, max(le.Uint32(body[4:]), 1))
	kind := uint8(kindBindAck)
	if h.kind == kindAlterContext {
		kind = kindAlterResp
		ack = append(le.AppendUint16(ack, 0), 0, 0)
	} else {
		ack = le.AppendUint16(ack, uint16(len(pipeAddress)))
		ack = append(ack, pipeAddress...)
		for (headerSize+len(ack))%4 != 0 {
			ack = append(ack, 0)
		}
	}
	ack = append(ack, byte(n), 0, 0, 0)
	return appendPDU(nil, kind, flagsWhole, h.callID, ack, results), nil
}

// chooseSyntax answers the first presentation context of a list: the interface must be srvsvc, and
// one of the transfer syntaxes NDR.
func chooseSyntax(list []byte) (result, rest []byte, err error) {
	if len(list) < contextFixed+syntaxSize {
		return nil, nil, malformed("presentation context")
	}
	n := int(list[2])
	asked := syntax(list[contextFixed:])
	list = list[contextFixed+syntaxSize:]
	if len(list) < n*syntaxSize {
		return nil, nil, malformed("transfer syntaxes")
	}
	verdict, reason, chosen := uint16(resultRejected), uint16(reasonSyntax), syntax{}
	for i := range n {
		if syntax(list[i*syntaxSize:]) == ndr32 {
			verdict, reason, chosen = resultAccepted, 0, ndr32
		}
	}
	if asked != serverService {
		verdict, reason, chosen = resultRejected, reasonInterface, syntax{}
	}
	result = le.AppendUint16(nil, verdict)
	result = le.AppendUint16(result, reason)
	return append(result, chosen[:]...), list[n*syntaxSize:], nil
}

// refuseBind returns the PDU that refuses a bind. It lists the version of the protocol that is
// spoken.
//
// Source: [C706 12.6.4.5]
func refuseBind(callID uint32, reason uint16) []byte {
	body := le.AppendUint16(nil, reason)
	return appendPDU(nil, kindBindNak, flagsWhole, callID, append(body, 1, 5, 0))
}
