package nbdwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The magic numbers of the handshake.
const (
	initMagic   uint64 = 0x4e42444d41474943 // NBDMAGIC
	optionMagic uint64 = 0x49484156454f5054 // IHAVEOPT
	replyMagic  uint64 = 0x0003e889045565a9
)

// ErrMalformed is the error of a message of the peer that has another form than the protocol demands.
var ErrMalformed = errors.New("nbd: malformed message")

// Flags of both sides in the handshake. The server offers them in its greeting, and the client
// repeats those that it uses.
//
// Source: [NBD §Handshake flags], [NBD §Client flags]
const (
	FixedNewstyle uint16 = 1 << 0
	// NoZeroes omits 124 zero bytes at the end of the answer to OptExportName.
	NoZeroes uint16 = 1 << 1
)

// The sizes of the greeting and of the answer of the client, in bytes.
const (
	GreetingSize    = 18
	ClientFlagsSize = 4
)

// AppendGreeting appends the first message of a server, with the flags that it offers.
//
// Source: [NBD §Newstyle negotiation]
func AppendGreeting(b []byte, flags uint16) []byte {
	b = binary.BigEndian.AppendUint64(b, initMagic)
	b = binary.BigEndian.AppendUint64(b, optionMagic)
	return binary.BigEndian.AppendUint16(b, flags)
}

// DecodeClientFlags decodes the answer of a client to a greeting with the flags offered.
//
// Errors: ErrMalformed, also for a flag that was not offered.
//
// Source: [NBD §Client flags]
func DecodeClientFlags(b []byte, offered uint16) (uint16, error) {
	if len(b) != ClientFlagsSize {
		return 0, fmt.Errorf("%w: client flags of %d bytes", ErrMalformed, len(b))
	}
	flags := binary.BigEndian.Uint32(b)
	if flags&^uint32(offered) != 0 {
		return 0, fmt.Errorf("%w: client flags %#x, of which %#x were offered", ErrMalformed, flags, offered)
	}
	return uint16(flags), nil
}

// OptionHeaderSize is the size of the header of an option, in bytes.
const OptionHeaderSize = 16

// OptionHeader begins each option of a client. Length bytes of data follow.
//
// Source: [NBD §Newstyle negotiation]
type OptionHeader struct {
	Option Option
	Length uint32 // bytes
}

// AppendTo appends the encoded header.
func (h OptionHeader) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, optionMagic)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Option))
	return binary.BigEndian.AppendUint32(b, h.Length)
}

// DecodeOptionHeader decodes the header of an option.
//
// Errors: ErrMalformed.
func DecodeOptionHeader(b []byte) (OptionHeader, error) {
	if len(b) != OptionHeaderSize {
		return OptionHeader{}, fmt.Errorf("%w: header of an option of %d bytes", ErrMalformed, len(b))
	}
	if m := binary.BigEndian.Uint64(b); m != optionMagic {
		return OptionHeader{}, fmt.Errorf("%w: an option begins with %#x", ErrMalformed, m)
	}
	return OptionHeader{Option(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint32(b[12:])}, nil
}

// AppendOptionReply appends a reply to an option.
//
// Source: [NBD §Fixed newstyle negotiation]
func AppendOptionReply(b []byte, o Option, r OptionReply, data []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, replyMagic)
	b = binary.BigEndian.AppendUint32(b, uint32(o))
	b = binary.BigEndian.AppendUint32(b, uint32(r))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// exportPadding is the number of zero bytes behind the answer to OptExportName.
const exportPadding = 124

// AppendExport appends the answer to OptExportName: the size of the export in bytes, and its
// transmission flags.
//
// Source: [NBD §Newstyle negotiation]
func AppendExport(b []byte, size uint64, flags TransmissionFlags, zeroes bool) []byte {
	b = binary.BigEndian.AppendUint64(b, size)
	b = binary.BigEndian.AppendUint16(b, uint16(flags))
	if zeroes {
		b = append(b, make([]byte, exportPadding)...)
	}
	return b
}

// AppendServer appends the data of a RepServer, which names an export in a list.
//
// Source: [NBD §Option reply types]
func AppendServer(b []byte, name, description string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	return append(b, description...)
}
