// Package smbauth authenticates the two ends of an SMB session to each other, and derives
// and applies the keys of the session: NTLMv2 in SPNEGO (or bare), the SMB 3 key derivation,
// the pre-authentication hash, message signing, and message encryption.
//
// The package has both roles. An Initiator or an Acceptor takes the peer's token and
// returns the next token until it is done. It serves one authentication and is not safe for
// concurrent use. LM and NTLMv1 responses, anonymous logons and keys of less than 128 bits
// are refused.
//
// Tokens come from unauthenticated peers: every offset is checked against the token before
// it is used, and no allocation has the length that a peer claims. Secrets and message
// authentication codes are compared in constant time.
//
// Source: [MS-NLMP], [MS-SPNG], [RFC 4178], [MS-SMB2 3.1.4]
package smbauth
