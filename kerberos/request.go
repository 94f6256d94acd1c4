package kerberos

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// Flags of the checksum of an authenticator.
//
// Source: [RFC 4121 §4.1.1.1]; RFC 4757 has the flag of DCE.
const (
	gssMutual   = 0x02
	gssReplay   = 0x04
	gssSequence = 0x08
	gssConf     = 0x10
	gssInteg    = 0x20
	gssDCEStyle = 0x1000
)

const (
	// checksumGSS is the type of the checksum of an authenticator that has the flags of GSS-API.
	checksumGSS = 0x8003
	// checksumSize is its length without delegated credentials, and bindingSize the length of the
	// channel bindings in it, in bytes. SMB has no channel bindings.
	checksumSize = 24
	bindingSize  = 16
)

// request is the check of one request.
type request struct {
	server *Server
	q      *smbauth.KerberosRequest
	now    time.Time
	ticket messages.EncTicketPart
	auth   types.Authenticator
	mutual bool
}

// openTicket decrypts the ticket, and checks service, client and times.
//
// Source: [RFC 4120 §3.2.3]
func (r *request) openTicket() error {
	if !isService(r.q.Service) {
		return fmt.Errorf("a ticket for the service %q: %w", strings.Join(r.q.Service, "/"), smbauth.ErrTicket)
	}
	keys, err := keysOf(*r.server.keys.Load(), r.q)
	if err != nil {
		return err
	}
	var plain []byte
	for _, key := range keys {
		if plain, err = decrypt(r.q.Ticket, key, usageTicket); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("ticket: %w", err)
	}
	t := &r.ticket
	if t.Unmarshal(plain) != nil {
		return fmt.Errorf("the content of the ticket: %w", smbauth.ErrTicket)
	}
	start := t.StartTime
	if start.IsZero() {
		start = t.AuthTime
	}
	switch {
	case types.IsFlagSet(&t.Flags, flags.Invalid), start.Sub(r.now) > r.server.skew:
		return fmt.Errorf("the ticket begins at %v: %w", start, smbauth.ErrTicket)
	case !r.now.Before(t.EndTime):
		return fmt.Errorf("the ticket ended at %v: %w", t.EndTime, smbauth.ErrTicket)
	case t.CRealm != r.server.realm:
		return fmt.Errorf("a client of the realm %q, not %q: %w", t.CRealm, r.server.realm, smbauth.ErrTicket)
	case len(t.CName.NameString) != 1 || t.CName.NameString[0] == "":
		return fmt.Errorf("a client with the name %q: %w", t.CName.NameString, smbauth.ErrTicket)
	}
	return nil
}

// openAuthenticator decrypts the authenticator, and checks client, time and checksum. It accepts each
// authenticator once.
//
// Source: [RFC 4120 §3.2.3], [RFC 4121 §4.1.1]
func (r *request) openAuthenticator() error {
	plain, err := decrypt(r.q.Authenticator, r.ticket.Key, usageAuthenticator)
	if err != nil {
		return fmt.Errorf("authenticator: %w", err)
	}
	a := &r.auth
	if a.Unmarshal(plain) != nil {
		return fmt.Errorf("the content of the authenticator: %w", smbauth.ErrTicket)
	}
	if a.CRealm != r.ticket.CRealm || !a.CName.Equal(r.ticket.CName) {
		return fmt.Errorf("ticket and authenticator name different clients: %w", smbauth.ErrTicket)
	}
	at := a.CTime.Add(time.Duration(a.Cusec) * time.Microsecond)
	if a.Cusec < 0 || a.Cusec >= 1e6 || at.Sub(r.now).Abs() > r.server.skew {
		return fmt.Errorf("an authenticator of %v: %w", a.CTime, smbauth.ErrSkew)
	}
	sum := a.Cksum.Checksum
	if a.Cksum.CksumType != checksumGSS || len(sum) < checksumSize || binary.LittleEndian.Uint32(sum) != bindingSize {
		return fmt.Errorf("a checksum of type %d with %d bytes: %w", a.Cksum.CksumType, len(sum), smbauth.ErrTicket)
	}
	asked := binary.LittleEndian.Uint32(sum[4+bindingSize:])
	if asked&gssDCEStyle != 0 {
		return fmt.Errorf("the style of DCE: %w", smbauth.ErrTicket)
	}
	r.mutual = asked&gssMutual != 0
	switch r.server.replays.add(r.now, a.CName.NameString[0], r.q.Authenticator.Cipher) {
	case replaySeen:
		return fmt.Errorf("an authenticator was sent before: %w", smbauth.ErrTicket)
	case replayFull:
		return fmt.Errorf("too many logons in a short time: %w", smbauth.ErrTicket)
	}
	return nil
}

// context makes the context, and the reply if the client asks for one. With a reply the session key is
// a subkey of the server, else it is the subkey of the client or, without one, the key of the ticket.
//
// Source: [RFC 4121 §2], [RFC 4120 §3.2.4], [MS-SMB2 3.3.5.5.3]
func (r *request) context() (*smbauth.KerberosContext, error) {
	c := &smbauth.KerberosContext{User: r.ticket.CName.NameString[0], Realm: r.ticket.CRealm, Expires: r.ticket.EndTime}
	codes := &codes{key: r.ticket.Key, seq: uint64(r.auth.SeqNumber), acceptor: true}
	if len(r.auth.SubKey.KeyValue) != 0 {
		codes.key = r.auth.SubKey
	}
	if _, err := checkKey(codes.key); err != nil {
		return nil, fmt.Errorf("subkey: %w", err)
	}
	if r.mutual {
		codes.key, codes.flags = newKey(codes.key), acceptorSubkey
		seq := int64(binary.BigEndian.Uint32(random(4)) >> 2)
		codes.seq = uint64(seq)
		reply, err := r.reply(codes.key, seq)
		if err != nil {
			return nil, fmt.Errorf("reply: %w: %w", err, smbauth.ErrTicket)
		}
		c.Reply = &reply
	}
	c.SessionKey, c.MIC, c.Verify = codes.key.KeyValue, codes.mic, codes.verify
	return c, nil
}

// reply returns the encrypted part of the reply.
//
// Source: [RFC 4120 §5.5.2]
func (r *request) reply(subkey types.EncryptionKey, seq int64) (smbauth.KerberosCipher, error) {
	b, err := asn1.Marshal(messages.EncAPRepPart{CTime: r.auth.CTime, Cusec: r.auth.Cusec, Subkey: subkey, SequenceNumber: seq})
	if err != nil {
		return smbauth.KerberosCipher{}, err
	}
	return encrypt(asn1tools.AddASNAppTag(b, asnAppTag.EncAPRepPart), r.ticket.Key, usageReply)
}

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}
