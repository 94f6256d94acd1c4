package nbdwire

import (
	"encoding/binary"
	"fmt"
)

// The magic numbers of the transmission.
const (
	requestMagic uint32 = 0x25609513
	simpleMagic  uint32 = 0x67446698
	chunkMagic   uint32 = 0x668e33ef
)

// RequestSize is the size of a request without its data, in bytes.
const RequestSize = 28

// Request is a request of a client. Length bytes of data follow a CmdWrite.
//
// Source: [NBD §Request message]
type Request struct {
	Flags   CommandFlags
	Command Command
	Cookie  uint64 // names the request in its replies
	Offset  uint64 // bytes
	Length  uint32 // bytes
}

// AppendTo appends the encoded request.
func (r Request) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, requestMagic)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Flags))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Command))
	b = binary.BigEndian.AppendUint64(b, r.Cookie)
	b = binary.BigEndian.AppendUint64(b, r.Offset)
	return binary.BigEndian.AppendUint32(b, r.Length)
}

// DecodeRequest decodes a request.
//
// Errors: ErrMalformed, after which the connection has no defined next message.
func DecodeRequest(b []byte) (Request, error) {
	if len(b) != RequestSize {
		return Request{}, fmt.Errorf("%w: a request of %d bytes", ErrMalformed, len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != requestMagic {
		return Request{}, fmt.Errorf("%w: a request begins with %#x", ErrMalformed, m)
	}
	return Request{
		Flags:   CommandFlags(binary.BigEndian.Uint16(b[4:])),
		Command: Command(binary.BigEndian.Uint16(b[6:])),
		Cookie:  binary.BigEndian.Uint64(b[8:]),
		Offset:  binary.BigEndian.Uint64(b[16:]),
		Length:  binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// The largest headers of replies, in bytes: of a simple reply, and of the chunk of a read.
const (
	SimpleReplySize = 16
	DataChunkSize   = chunkSize + 8
	chunkSize       = 20
)

// AppendSimpleReply appends a simple reply. The data of a read follows it if there is no error.
//
// Source: [NBD §Simple reply message]
func AppendSimpleReply(b []byte, cookie uint64, e Errno) []byte {
	b = binary.BigEndian.AppendUint32(b, simpleMagic)
	b = binary.BigEndian.AppendUint32(b, uint32(e))
	return binary.BigEndian.AppendUint64(b, cookie)
}

// chunkType is the type of a chunk of a structured reply.
//
// Source: [NBD §Structured reply types]
type chunkType uint16

// The types of chunks.
const (
	chunkNone       chunkType = 0
	chunkOffsetData chunkType = 1
	chunkError      chunkType = 1<<15 + 1
)

// chunkDone is the flag of the last chunk of a reply. Each reply of this package is one chunk.
const chunkDone uint16 = 1 << 0

// appendChunk appends the header of a chunk with n bytes of payload.
func appendChunk(b []byte, cookie uint64, t chunkType, n uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, chunkMagic)
	b = binary.BigEndian.AppendUint16(b, chunkDone)
	b = binary.BigEndian.AppendUint16(b, uint16(t))
	b = binary.BigEndian.AppendUint64(b, cookie)
	return binary.BigEndian.AppendUint32(b, n)
}

// AppendDone appends a structured reply without data, of success.
//
// Source: [NBD §Structured reply types]
func AppendDone(b []byte, cookie uint64) []byte { return appendChunk(b, cookie, chunkNone, 0) }

// AppendDataChunk appends the header of a structured reply to a read of n bytes at an offset, of at least one
// byte. The data follows.
//
// Source: [NBD §Structured reply types]
func AppendDataChunk(b []byte, cookie, offset uint64, n uint32) []byte {
	b = appendChunk(b, cookie, chunkOffsetData, n+8)
	return binary.BigEndian.AppendUint64(b, offset)
}

// AppendError appends a structured reply of an error, with a text of at most 4096 bytes.
//
// Source: [NBD §Structured reply types]
func AppendError(b []byte, cookie uint64, e Errno, text string) []byte {
	text = text[:min(len(text), MaxName)]
	b = appendChunk(b, cookie, chunkError, uint32(6+len(text)))
	b = binary.BigEndian.AppendUint32(b, uint32(e))
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}
