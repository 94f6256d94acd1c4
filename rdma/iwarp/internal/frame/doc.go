// Package frame is the wire format of iWARP: bytes in, values out. It does no I/O and
// knows neither connections nor memory.
//
//	MPA start-up frames   Startup        RFC 5044 §7.1, RFC 6581 §9
//	MPA framing           FPDU, CRC32C   RFC 5044 §4
//	MPA markers           Marker         RFC 5044 §4.3
//	DDP                   Segment        RFC 5041 §4
//	RDMAP                 Opcode, ReadRequest, AtomicRequest, AtomicResponse
//	                                     RFC 5040 §4, RFC 7306 §5
//	Terminate             Terminate, Fault
//	                                     RFC 5040 §4.8
//
// Decoders copy values, unless they say otherwise, and check lengths first. Reserved bits are ignored.
package frame
