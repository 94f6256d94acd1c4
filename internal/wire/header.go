package wire

import "encoding/binary"

// HeaderSize is the size of the common header, in bytes.
//
// Source: [OP-11]
const HeaderSize = 48

// Header begins every message from the client. The opcode chooses between the two arms at
// offset 32 [OP-25], the flag INTERRUPT between those at 36 [OP-24]; the fields of the other arm
// are not sent, and are zero after decoding.
//
//	 0 Length u32     4 Opcode u8     5 Flags u8   6 Credits u8   7 Marker u8
//	 8 Fid u16       10 Sequence u16  12 Tid u32
//	16 Offset u64    24 DataVa u64
//	32 DataMh u32, or for VEC_READ and VEC_WRITE: NumPages u16, PageSize u16
//	36 IosMh u32     40 IosVa u64, or with FlagInterrupt:
//	36 ImmediateCookie u32  40 Cookie u64
//
// Source: [LWIO §Network Discovery], [OP-11], [OP-20], [OP-24], [OP-25]
type Header struct {
	// Length is the number of file bytes of a message of I/O, else the number of
	// bytes of the whole message. [OP-26]
	Length uint32
	Opcode Opcode
	Flags  uint8
	// Credits is the number of the client's pending I/O requests, at most 255: a
	// hint, except in INTERRUPT. [OP-64]
	Credits uint8
	// Marker is 0xFF. [OP-23]
	Marker uint8
	// Fid is the file id of REGISTER; 0 is none.
	Fid uint16
	// Sequence numbers the messages after AUTH. [OP-21]
	Sequence uint16
	// Tid is 0 and ignored. [OP-22]
	Tid uint32
	// Offset is a byte offset in the file; in CREDIT see NewCredit.
	Offset uint64
	// DataVa is the remote address that data is written to, chosen by the
	// transport. [OP-18]
	DataVa uint64

	// DataMh is the remote token that belongs to DataVa. [OP-19]
	DataMh uint32
	// NumPages counts the regions of a VEC_READ or the pages of a VEC_WRITE.
	NumPages uint16
	// PageSize is the sender's page size, in bytes.
	PageSize uint16

	// ImmediateCookie comes back as immediate data of an RDMA Write. [OP-85]
	ImmediateCookie uint32
	// Cookie comes back in the status response; never 0. [OP-73]
	Cookie uint64
	// IosMh and IosVa are where the status block is written to. [OP-89]
	IosMh uint32
	IosVa uint64
}

// Interrupt reports whether the message is answered by a status response rather
// than a status block.
//
// Source: [LWIO §I/O Processing], [LWIO claim 18], [LWIO claim 19], [LWIO claim 20], [OP-95]
func (h *Header) Interrupt() bool { return h.Flags&FlagInterrupt != 0 }

// SetPending sets Credits to the number of I/O requests that are pending at the
// client, at most 255.
//
// Source: [LWIO §File Registration], [LWIO claim 22], [OP-64], [OP-97]
func (h *Header) SetPending(requests int) { h.Credits = uint8(min(max(requests, 0), 0xFF)) }

// AppendTo appends the 48 bytes of the header.
func (h *Header) AppendTo(b []byte) []byte {
	// Whole words, and the widest field first: if the compiler combines fields of one size that
	// were just set, the load waits for their stores.
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Length)|uint64(h.Opcode)<<32|uint64(h.Flags)<<40|
		uint64(h.Credits)<<48|uint64(h.Marker)<<56)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Tid)<<32|uint64(h.Fid)|uint64(h.Sequence)<<16)
	b = binary.LittleEndian.AppendUint64(b, h.Offset)
	b = binary.LittleEndian.AppendUint64(b, h.DataVa)
	if h.Opcode.Vectored() {
		b = binary.LittleEndian.AppendUint16(b, h.NumPages)
		b = binary.LittleEndian.AppendUint16(b, h.PageSize)
	} else {
		b = binary.LittleEndian.AppendUint32(b, h.DataMh)
	}
	if h.Interrupt() {
		b = binary.LittleEndian.AppendUint32(b, h.ImmediateCookie)
		return binary.LittleEndian.AppendUint64(b, h.Cookie)
	}
	b = binary.LittleEndian.AppendUint32(b, h.IosMh)
	return binary.LittleEndian.AppendUint64(b, h.IosVa)
}

// Decode reads the header of a message, which is its first 48 bytes; b holds these, or the whole
// message. It accepts any values: Check validates them.
//
// Errors: *Error, which ends the connection, for fewer than 48 bytes.
func (h *Header) Decode(b []byte) error {
	*h = Header{}
	if len(b) < HeaderSize {
		return wrongSize("common header", len(b), HeaderSize)
	}
	h.Length = binary.LittleEndian.Uint32(b)
	h.Opcode, h.Flags, h.Credits, h.Marker = Opcode(b[4]), b[5], b[6], b[7]
	h.Fid = binary.LittleEndian.Uint16(b[8:])
	h.Sequence = binary.LittleEndian.Uint16(b[10:])
	h.Tid = binary.LittleEndian.Uint32(b[12:])
	h.Offset = binary.LittleEndian.Uint64(b[16:])
	h.DataVa = binary.LittleEndian.Uint64(b[24:])
	if h.Opcode.Vectored() {
		h.NumPages, h.PageSize = binary.LittleEndian.Uint16(b[32:]), binary.LittleEndian.Uint16(b[34:])
	} else {
		h.DataMh = binary.LittleEndian.Uint32(b[32:])
	}
	if h.Interrupt() {
		h.ImmediateCookie, h.Cookie = binary.LittleEndian.Uint32(b[36:]), binary.LittleEndian.Uint64(b[40:])
	} else {
		h.IosMh, h.IosVa = binary.LittleEndian.Uint32(b[36:]), binary.LittleEndian.Uint64(b[40:])
	}
	return nil
}
