// Package kerberos authenticates clients and servers of LWIO by Kerberos, in place of passwords.
// A program that needs it imports it, and passes a [Server] to server.Config or a [Client] to
// lwio.Config. No other package of LWIO depends on a library of Kerberos.
//
// A server has a keytab with the keys of its service, cifs/HOST. A client has a credential cache, as
// kinit makes it, or the password of its user. Both sides prove their identity, in one round trip.
//
// Only the encryption types with AES are used (aes128-cts and aes256-cts, of RFC 3962 and of RFC 8009).
//
// Source: [RFC 4120], [RFC 4121]
package kerberos
