// Package wire holds the messages and structures of the LWIO protocol: bytes in,
// values out. It does no I/O, keeps no state and owns no buffers; a decoded value
// refers to nothing of the bytes that it was decoded from. Bytes that a peer can
// still write must be copied before they are decoded.
//
// All fields are little-endian and packed [OP-11] [OP-12]. A decoder demands the
// exact length of what it decodes, checks every length before it believes it, and
// ignores reserved bytes. What has a fixed size is encoded and decoded without an
// allocation.
//
// # Messages
//
// NEGOTIATE ([NegotiateRequest], [NegotiateResponse]) travels over a named pipe of
// SMB, all else over an RDMA connection. There a client's message is a [Header] and
// its body; the server answers with a [StatusResponse] by Send or an [IOStatusBlock]
// by RDMA Write.
//
// The functions whose names begin with New make the headers of a client's messages.
// They fill in all fields but Credits and Sequence, which depend on the moment of
// sending. The methods whose names begin with Check are what a receiver demands:
// [Header.Check] of a client's header and the number of bytes that arrived, the
// others of what comes with it.
//
// # Errors
//
// Every error about a peer's bytes is an [*Error]. It says whether the sender gets
// a status, and whether the connection ends.
//
// Source: [LWIO §Network Discovery], [LWIO §Connection Authentication], [LWIO §I/O Processing], [OP-10], [OP-11], [OP-12]
package wire
