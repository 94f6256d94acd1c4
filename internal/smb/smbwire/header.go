package smbwire

import "lwio/internal/ntstatus"

// HeaderSize is the length of every SMB 2 header, in bytes.
const HeaderSize = 64

// Protocol identifiers, as a little-endian number.
const (
	protocolSMB2       = 0x424D53FE
	protocolSMB1       = 0x424D53FF
	protocolTransform  = 0x424D53FD
	protocolCompressed = 0x424D53FC
)

// Command is the operation of a message.
//
// Source: [MS-SMB2 2.2.1.2]
type Command uint16

// The commands.
const (
	CommandNegotiate      Command = 0x00
	CommandSessionSetup   Command = 0x01
	CommandLogoff         Command = 0x02
	CommandTreeConnect    Command = 0x03
	CommandTreeDisconnect Command = 0x04
	CommandCreate         Command = 0x05
	CommandClose          Command = 0x06
	CommandFlush          Command = 0x07
	CommandRead           Command = 0x08
	CommandWrite          Command = 0x09
	CommandLock           Command = 0x0A
	CommandIoctl          Command = 0x0B
	CommandCancel         Command = 0x0C
	CommandEcho           Command = 0x0D
	CommandQueryDirectory Command = 0x0E
	CommandChangeNotify   Command = 0x0F
	CommandQueryInfo      Command = 0x10
	CommandSetInfo        Command = 0x11
	CommandOplockBreak    Command = 0x12
	CommandNotification   Command = 0x13
)

var commandNames = [...]string{
	"NEGOTIATE", "SESSION_SETUP", "LOGOFF", "TREE_CONNECT", "TREE_DISCONNECT", "CREATE", "CLOSE", "FLUSH", "READ", "WRITE",
	"LOCK", "IOCTL", "CANCEL", "ECHO", "QUERY_DIRECTORY", "CHANGE_NOTIFY", "QUERY_INFO", "SET_INFO", "OPLOCK_BREAK",
	"SERVER_TO_CLIENT_NOTIFICATION",
}

// String returns the name of the command in the specification.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return "unknown command"
}

// Flags are the bits of a header.
//
// Source: [MS-SMB2 2.2.1.2]
type Flags uint32

// The flags. Priority is a number of three bits.
const (
	FlagResponse     Flags = 0x00000001
	FlagAsync        Flags = 0x00000002
	FlagRelated      Flags = 0x00000004
	FlagSigned       Flags = 0x00000008
	FlagPriorityMask Flags = 0x00000070
	// FlagReplay marks a request that repeats one whose response was lost.
	FlagReplay Flags = 0x20000000
)

// RelatedFileID stands for the handle of the request before, in a compound of related
// requests.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
var RelatedFileID = FileID{^uint64(0), ^uint64(0)}

// RelatedID stands for the session or tree of the request before.
const ()

// OplockBreakMessageID is the message id of notifications, which have no request.
const OplockBreakMessageID uint64 = 1<<64 - 1

// Offsets of header fields that are changed in place.
const (
	offCreditCharge = 6
	offStatus       = 8
	offCommand      = 12
	offCredits      = 14
	offFlags        = 16
	offNextCommand  = 20
	offMessageID    = 24
	offAsyncID      = 32
	offTreeID       = 36
	offSessionID    = 40
	offSignature    = 48
)

// Header is the header of a request or response, in both its forms: with FlagAsync set,
// AsyncID is sent, and otherwise ProcessID and TreeID; fields that are not sent are decoded
// as zero.
//
// Source: [MS-SMB2 2.2.1.1], [MS-SMB2 2.2.1.2]
type Header struct {
	// CreditCharge is how many credits the request costs.
	CreditCharge uint16
	// Status is the result of a request. In a request of dialect 3.x its low half is the
	// channel sequence number.
	Status  ntstatus.Status
	Command Command
	// Credits is how many credits are asked for or granted.
	Credits uint16
	Flags   Flags
	// NextCommand is the distance to the next header of a compound in bytes, or 0.
	NextCommand uint32
	MessageID   uint64
	AsyncID     uint64
	ProcessID   uint32
	TreeID      uint32
	SessionID   uint64
	Signature   [16]byte
}

// Put writes the header into the first HeaderSize bytes of b. Precondition: b has as many.
func (h *Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	le.PutUint32(b, protocolSMB2)
	le.PutUint16(b[4:], HeaderSize)
	le.PutUint16(b[offCreditCharge:], h.CreditCharge)
	le.PutUint32(b[offStatus:], uint32(h.Status))
	le.PutUint16(b[offCommand:], uint16(h.Command))
	le.PutUint16(b[offCredits:], h.Credits)
	le.PutUint32(b[offFlags:], uint32(h.Flags))
	le.PutUint32(b[offNextCommand:], h.NextCommand)
	le.PutUint64(b[offMessageID:], h.MessageID)
	if h.Flags&FlagAsync != 0 {
		le.PutUint64(b[offAsyncID:], h.AsyncID)
	} else {
		le.PutUint32(b[offAsyncID:], h.ProcessID)
		le.PutUint32(b[offTreeID:], h.TreeID)
	}
	le.PutUint64(b[offSessionID:], h.SessionID)
	copy(b[offSignature:], h.Signature[:])
}

// AppendTo appends the header.
func (h *Header) AppendTo(b []byte) []byte {
	var raw [HeaderSize]byte
	h.Put(raw[:])
	return append(b, raw[:]...)
}

// DecodeHeader decodes the header at the start of b.
//
// Errors: ErrSMB1, ErrEncrypted, ErrCompressed or ErrProtocol for other
// messages, ErrShort, ErrStructureSize.
func DecodeHeader(b []byte) (Header, error) {
	const name = "header"
	if err := CheckProtocol(b); err != nil {
		return Header{}, err
	}
	if len(b) < HeaderSize {
		return Header{}, fault(name, "", ErrShort)
	}
	if le.Uint16(b[4:]) != HeaderSize {
		return Header{}, fault(name, "StructureSize", ErrStructureSize)
	}
	h := Header{
		CreditCharge: le.Uint16(b[offCreditCharge:]),
		Status:       ntstatus.Status(le.Uint32(b[offStatus:])),
		Command:      Command(le.Uint16(b[offCommand:])),
		Credits:      le.Uint16(b[offCredits:]),
		Flags:        Flags(le.Uint32(b[offFlags:])),
		NextCommand:  le.Uint32(b[offNextCommand:]),
		MessageID:    le.Uint64(b[offMessageID:]),
		SessionID:    le.Uint64(b[offSessionID:]),
		Signature:    [16]byte(b[offSignature:HeaderSize]),
	}
	if h.Flags&FlagAsync != 0 {
		h.AsyncID = le.Uint64(b[offAsyncID:])
	} else {
		h.ProcessID = le.Uint32(b[offAsyncID:])
		h.TreeID = le.Uint32(b[offTreeID:])
	}
	return h, nil
}

// CheckProtocol checks the first four bytes of a message. It returns nil for SMB 2.
//
// Errors: ErrSMB1, ErrEncrypted, ErrCompressed, ErrProtocol, ErrShort.
//
// Source: [MS-SMB2 2.2.1], [MS-SMB2 2.2.41], [MS-SMB2 2.2.42]
func CheckProtocol(b []byte) error {
	const name, field = "header", "ProtocolId"
	if len(b) < 4 {
		return fault(name, field, ErrShort)
	}
	switch le.Uint32(b) {
	case protocolSMB2:
		return nil
	case protocolSMB1:
		return fault(name, field, ErrSMB1)
	case protocolTransform:
		return fault(name, field, ErrEncrypted)
	case protocolCompressed:
		return fault(name, field, ErrCompressed)
	}
	return fault(name, field, ErrProtocol)
}

// FileID is a handle on the wire.
//
// Source: [MS-SMB2 2.2.14.1]
type FileID struct {
	Persistent, Volatile uint64
}

func (f FileID) appendTo(b []byte) []byte {
	b = le.AppendUint64(b, f.Persistent)
	return le.AppendUint64(b, f.Volatile)
}

func fileID(b []byte) FileID {
	return FileID{le.Uint64(b), le.Uint64(b[8:])}
}

// Signature returns the signature of an encoded message.
func Signature(msg []byte) [16]byte { return [16]byte(msg[offSignature:HeaderSize]) }
