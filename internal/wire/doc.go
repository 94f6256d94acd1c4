// Package wire encodes and decodes the messages and structures of the LWIO protocol. It does
// no I/O, keeps no state and owns no buffers; a decoded value does not refer to the decoded
// bytes. Bytes that a peer can still write must be copied before they are decoded.
//
// All fields are little-endian and packed [OP-11] [OP-12]. A decoder demands the exact length
// of a structure, checks every length before using it, and ignores reserved bytes. Structures
// of fixed size are encoded and decoded without an allocation.
//
// # Messages
//
// NEGOTIATE ([NegotiateRequest], [NegotiateResponse]) travels over a named pipe of SMB, all
// other messages over an RDMA connection. There a client's message is a [Header] and its
// body; the server answers with a [StatusResponse] by Send or an [IOStatusBlock] by RDMA
// Write.
//
// A client makes a header with the New function of the message, sets the way of its
// completion with [Header.CompleteBySend] or [Header.CompleteByWrite], and Credits
// ([Header.SetPending]) and Sequence when it posts the message. The body, if any, follows the
// header. Control messages are completed by Send only.
//
// The methods whose names begin with Check validate a peer's message: [Header.Check] a
// client's header and the number of received bytes, the others its body.
//
// # Errors
//
// Every error about a peer's bytes is an [*Error]. It says whether the sender gets a status,
// and whether the connection ends.
//
// Source: [LWIO §Network Discovery], [LWIO §Connection Authentication], [LWIO §I/O Processing], [OP-10], [OP-11], [OP-12]
package wire
