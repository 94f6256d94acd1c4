// Package smbwire is the codec of SMB 2 and SMB 3 messages, for client and server alike.
// All numbers on the wire are little-endian.
//
// A message is a header, a body, and in a compound the padding up to the next header.
// AppendTo of a body appends the bytes behind the header; offsets in it are counted from
// the header, as in the protocol, so the header is the 64 bytes before. A DecodeX function
// takes the body, which is all bytes behind the header up to the end of the element;
// further bytes are padding and are ignored. Reserved fields are sent as zero and ignored.
// A structure that is only sent, or only received, has one direction.
//
// Decoding copies no payload: byte slices in a decoded value are parts of the input and live
// as long as it does. Lists of fixed items are copied. Lengths are checked against the input
// before any allocation. AppendTo keeps nothing of the value; lengths that do not fit their
// field on the wire are an error of the caller (AppendUTF16 refuses names of more than
// 64 KiB).
//
// Names are UTF-16LE bytes in the structures; AppendUTF16 and DecodeUTF16 translate them, and
// refuse NUL and unpaired surrogates. CleanPath and CheckElement refuse names that SMB cannot
// carry.
//
// All functions are safe for concurrent use; values are plain data.
//
// Source: [MS-SMB2 2], [MS-FSCC 2]
package smbwire
