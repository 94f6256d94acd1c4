// Package smbwire encodes and decodes SMB 2 and SMB 3 messages, for both
// directions: the client writes requests with what the server reads them with,
// and the other way round. Everything is little-endian.
//
// A message is a header, a body, and in a chain the padding up to the next
// header. AppendTo of a body appends what follows the header; offsets in it are
// counted from the header, as the protocol has it, so the header must be the 64
// bytes before. A DecodeX function takes the body, which is everything behind
// the header up to the end of the element; bytes behind what the body names are
// padding and are not looked at. Reserved fields are sent as zero and ignored.
//
// Decoding copies no payload: byte slices in a decoded value are parts of the
// input and live as long as it does. Lists of fixed items are copied. Lengths are
// checked against the input before anything is allocated. AppendTo keeps
// nothing of the value; lengths that do not fit their field on the wire are the
// caller's mistake (AppendUTF16 refuses names of more than 64 KiB).
//
// Names are UTF-16LE bytes in the structures; AppendUTF16 and DecodeUTF16
// translate them, and refuse NUL and unpaired surrogates.
//
// All functions are safe for concurrent use; values are plain data.
//
// Source: [MS-SMB2 2], [MS-FSCC 2]
package smbwire
