// Package smbauth authenticates the two ends of an SMB session to each other, and derives
// and applies the keys of the session: NTLMv2 in SPNEGO (or bare), the SMB 3 key derivation,
// the pre-authentication hash, and message signing.
//
// The package has both roles. An Initiator and an Acceptor take the peer's token and return
// the next one until they are done; neither is safe for concurrent use, and each serves one
// authentication. LM and NTLMv1 responses, anonymous logons and keys of less than 128 bits
// are refused.
//
// Tokens come from unauthenticated peers: every offset is checked against the token before
// it is used, and no claimed length decides about an allocation. Secrets and message
// authentication codes are compared in constant time.
//
// Source: [MS-NLMP], [MS-SPNG], [RFC 4178], [MS-SMB2 3.1.4]
package smbauth
