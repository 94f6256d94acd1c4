package kerberos

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// exchange is the client's side of one authentication.
type exchange struct {
	t       *serviceTicket
	auth    types.Authenticator
	request *smbauth.KerberosRequest
}

// newExchange makes the request with a ticket.
//
// Source: [RFC 4120 §3.2.2], [RFC 4121 §4.1.1]
func newExchange(t *serviceTicket, now time.Time) (*exchange, error) {
	if _, err := checkKey(t.key); err != nil {
		return nil, err
	}
	now = now.UTC()
	sum := binary.LittleEndian.AppendUint32(nil, bindingSize)
	sum = append(sum, make([]byte, bindingSize)...)
	sum = binary.LittleEndian.AppendUint32(sum, gssMutual|gssReplay|gssSequence|gssConf|gssInteg)
	x := &exchange{t: t, auth: types.Authenticator{
		AVNO: iana.PVNO, CRealm: t.realm, CName: t.user,
		Cksum: types.Checksum{CksumType: checksumGSS, Checksum: sum},
		Cusec: now.Nanosecond() / 1000, CTime: now.Truncate(time.Second),
		SubKey: newKey(t.key), SeqNumber: int64(binary.BigEndian.Uint32(random(4)) >> 2),
	}}
	plain, err := x.auth.Marshal()
	if err != nil {
		return nil, err
	}
	sealed, err := encrypt(plain, t.key, usageAuthenticator)
	if err != nil {
		return nil, err
	}
	x.request = &smbauth.KerberosRequest{
		Realm: t.ticket.Realm, NameType: t.ticket.SName.NameType, Service: t.ticket.SName.NameString,
		Ticket:        smbauth.KerberosCipher{Type: t.ticket.EncPart.EType, KVNO: uint32(t.ticket.EncPart.KVNO), Cipher: t.ticket.EncPart.Cipher},
		Authenticator: sealed,
	}
	return x, nil
}

// Request returns the request.
func (x *exchange) Request() *smbauth.KerberosRequest { return x.request }

// Finish checks the reply of the server, which has to repeat the time of the authenticator.
//
// Source: [RFC 4120 §3.2.5], [RFC 4121 §2]
func (x *exchange) Finish(reply smbauth.KerberosCipher) (c *smbauth.KerberosContext, err error) {
	defer guard(&err)
	plain, err := decrypt(reply, x.t.key, usageReply)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	var p messages.EncAPRepPart
	if p.Unmarshal(plain) != nil || !p.CTime.Equal(x.auth.CTime) || p.Cusec != x.auth.Cusec {
		return nil, fmt.Errorf("the content of the reply: %w", smbauth.ErrTicket)
	}
	codes := &codes{key: x.auth.SubKey, seq: uint64(x.auth.SeqNumber)}
	if len(p.Subkey.KeyValue) != 0 {
		codes.key, codes.flags = p.Subkey, acceptorSubkey
	}
	if _, err := checkKey(codes.key); err != nil {
		return nil, fmt.Errorf("subkey of the reply: %w", err)
	}
	return &smbauth.KerberosContext{
		User: x.t.user.PrincipalNameString(), Realm: x.t.realm, Expires: x.t.end,
		SessionKey: codes.key.KeyValue, MIC: codes.mic, Verify: codes.verify,
	}, nil
}
