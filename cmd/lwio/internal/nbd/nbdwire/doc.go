// Package nbdwire encodes and decodes the messages of the NBD protocol, as a server sends and
// receives them: bytes in, values out.
//
// All numbers are big-endian. A message of fixed size demands the exact length; a variable one is
// checked before its parts are used. Decoded strings do not share memory with the message.
//
// The source is the document of the protocol, doc/proto.md of the project NetworkBlockDevice/nbd. Tags such
// as [NBD §Request message] name its sections.
package nbdwire
