package smbauth

import (
	"context"
	"errors"
	"time"
)

// KerberosServer checks the requests of clients with the keys of a service. It is safe for
// concurrent use.
type KerberosServer interface {
	// Accept checks the ticket and the authenticator of a request, and returns the context that
	// follows from them. The lengths of the request are within the bounds of its codec; all else
	// is unproven. The request is not kept.
	//
	// Errors: ErrTicket, ErrSkew, or an error that wraps one of them.
	Accept(q *KerberosRequest) (*KerberosContext, error)
}

// KerberosClient gets tickets for services. It is safe for concurrent use.
type KerberosClient interface {
	// Begin gets a ticket, and returns the exchange with the service.
	Begin(ctx context.Context, c KerberosCredentials) (KerberosExchange, error)
}

// KerberosCredentials name a client and a service.
type KerberosCredentials struct {
	// User is the name of the client, "" for the principal of the credential cache. Realm is
	// empty for the default realm.
	User, Realm string
	// Password is empty for a ticket of the credential cache.
	Password string
	// Host is the host of the service "cifs".
	Host string
}

// KerberosExchange is the client's side of one authentication. It is not safe for concurrent use.
type KerberosExchange interface {
	// Request returns the request for the service.
	Request() *KerberosRequest
	// Finish checks the reply of the service, which proves that the service has the key of the
	// ticket, and returns the context. Errors wrap ErrTicket.
	Finish(reply KerberosCipher) (*KerberosContext, error)
}

// KerberosContext is an authenticated pair of a client and a service.
type KerberosContext struct {
	// User and Realm are the principal of the client: a name of one component.
	User, Realm string
	// Expires is the end of the ticket.
	Expires time.Time
	// SessionKey is the key of the subkey that both sides use, 16 bytes or more.
	SessionKey []byte
	// Reply is the server's reply, nil if the client does not ask for one.
	Reply *KerberosCipher
	// MIC returns the code of this side over data. Verify checks one of the other side.
	MIC    func(data []byte) []byte
	Verify func(data, mic []byte) bool
}

var (
	// ErrTicket reports a Kerberos ticket, authenticator or reply that is not valid.
	ErrTicket = errors.New("ticket of Kerberos refused")

	// ErrSkew reports an authenticator whose time is too far from the time of the server.
	ErrSkew = errors.New("the clocks of client and server differ too much")
)

// Object identifiers of Kerberos, as DER content. Windows and Samba send both forms, the first
// one with a wrong bit, and MIT sends the second one. Both mean the same.
//
// Source: [RFC 4121 §4.1], [MS-SPNG 1.9]
const (
	oidMSKerberos = "\x2a\x86\x48\x82\xf7\x12\x01\x02\x02"
	oidKerberos   = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
)

// isKerberos reports whether an object identifier is one of Kerberos.
func isKerberos(oid string) bool { return oid == oidKerberos || oid == oidMSKerberos }
