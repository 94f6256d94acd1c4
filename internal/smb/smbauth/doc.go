// Package smbauth proves who is at the two ends of an SMB session, and derives
// and applies the keys that follow from the proof: NTLMv2 inside SPNEGO (or
// bare), the SMB 3 key derivation, the pre-authentication hash, and message
// signing.
//
// Both roles are here. An Initiator and an Acceptor are fed the peer's token
// and hand out the next one until they are done; neither is safe for
// concurrent use, and each serves one authentication only. LM and NTLMv1
// responses, anonymous logons and keys of less than 128 bits are refused.
//
// Tokens are decoded from bytes that a stranger sent: every offset is checked
// against the token before it is used, and nothing is allocated by a length
// that was merely claimed. Secrets and message authentication codes are
// compared in constant time.
//
// Source: [MS-NLMP], [MS-SPNG], [RFC 4178], [MS-SMB2 3.1.4]
package smbauth
