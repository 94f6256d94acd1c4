package kerberos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	// maxIterations bounds the cost of a key from a password, which the KDC chooses: less than a
	// second of a processor.
	maxIterations = 1 << 20
	// The least iterations are the defaults. The reply of the KDC is not authentic: with fewer, an attacker in
	// its place could guess the password at less cost, by the request that is encrypted with the key.
	minIterations     = 4096
	minIterationsSHA2 = 32768
	// maxReferrals bounds the realms on the way to a service.
	maxReferrals = 5
)

// ticketOfUser gets the ticket of a user with its password.
//
// Source: [RFC 4120 §3.1]
func ticketOfUser(ctx context.Context, cfg *config.Config, name, realm, password string) (*serviceTicket, error) {
	user := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name)
	q, err := messages.NewASReqForTGT(realm, cfg, user)
	if err != nil {
		return nil, err
	}
	b, err := sendASReq(ctx, cfg, &q)
	var refused messages.KRBError
	if errors.As(err, &refused) && refused.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		if err := preAuthenticate(&q, &refused, user, realm, password); err != nil {
			return nil, err
		}
		b, err = sendASReq(ctx, cfg, &q)
	}
	if err != nil {
		return nil, err
	}
	var p messages.ASRep
	if err := p.Unmarshal(b); err != nil {
		return nil, err
	}
	if p.PAData, _, err = keyParameters(p.PAData, p.EncPart.EType); err != nil {
		return nil, err
	}
	if ok, err := p.Verify(cfg, credentials.New(name, realm).WithPassword(password), q); !ok {
		return nil, err
	}
	return &serviceTicket{ticket: p.Ticket, key: p.DecryptedEncPart.Key, end: p.DecryptedEncPart.EndTime, user: user, realm: realm}, nil
}

func sendASReq(ctx context.Context, cfg *config.Config, q *messages.ASReq) ([]byte, error) {
	b, err := q.Marshal()
	if err != nil {
		return nil, err
	}
	return sendToKDC(ctx, cfg, q.ReqBody.Realm, b)
}

// preAuthenticate adds the time, encrypted with the key of the password, to a request. The KDC has asked
// for that.
//
// Source: [RFC 4120 §5.2.7.2]
func preAuthenticate(q *messages.ASReq, refused *messages.KRBError, user types.PrincipalName, realm, password string) error {
	var pas types.PADataSequence
	if err := pas.Unmarshal(refused.EData); err != nil {
		return fmt.Errorf("the KDC asks for pre-authentication: %w", err)
	}
	pas, etype, err := keyParameters(pas, aesTypes[0])
	if err != nil {
		return err
	}
	key, _, err := crypto.GetKeyFromPassword(password, user, realm, etype, pas)
	if err != nil {
		return err
	}
	now, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return err
	}
	sealed, err := crypto.GetEncryptedData(now, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, 0)
	if err != nil {
		return err
	}
	value, err := sealed.Marshal()
	if err == nil {
		q.PAData = append(q.PAData, types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: value})
	}
	return err
}

// keyParameters returns the data of the KDC that name the parameters of the key of a password, and the
// encryption type of the key: the first one that the KDC names, or else etype. It must be one of AES, and its
// cost is bounded on both sides. The data are not authentic.
//
// Source: [RFC 4120 §5.2.7.5], [RFC 3962 §4]
func keyParameters(pas types.PADataSequence, etype int32) (types.PADataSequence, int32, error) {
	pas = slices.DeleteFunc(pas, func(pa types.PAData) bool { return pa.PADataType != patype.PA_ETYPE_INFO2 })
	if len(pas) > 1 {
		return nil, 0, errors.New("the KDC names its encryption types twice")
	}
	for _, pa := range pas {
		info, err := pa.GetETypeInfo2()
		if err != nil || len(info) == 0 {
			return nil, 0, fmt.Errorf("the encryption types of the KDC: %w", errors.Join(err, errNoType))
		}
		etype = info[0].EType
		if p := info[0].S2KParams; len(p) == 4 {
			n, least := binary.BigEndian.Uint32(p), leastIterations(etype)
			if n < least || n > maxIterations {
				return nil, 0, fmt.Errorf("the KDC asks for %d iterations for the key of the password, limits %d and %d", n, least, maxIterations)
			}
		}
	}
	if !slices.Contains(aesTypes, etype) {
		return nil, 0, fmt.Errorf("encryption type %d of the KDC: %w", etype, errNoType)
	}
	return pas, etype, nil
}

// leastIterations returns the least iterations for a key of an encryption type.
//
// Source: [RFC 3962 §4]; RFC 8009 has the numbers for SHA-2.
func leastIterations(etype int32) uint32 {
	switch etype {
	case etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
		return minIterationsSHA2
	}
	return minIterations
}

var errNoType = errors.New("no encryption type with AES")

// exchange gets a ticket for a service with the ticket of the user, from the KDC of the service, to which
// the KDC of the user may refer.
//
// Source: [RFC 4120 §3.3]
func (t *serviceTicket) exchange(ctx context.Context, cfg *config.Config, target types.PrincipalName) (*serviceTicket, error) {
	next, at := t, t.realm
	for range maxReferrals {
		p, err := next.ask(ctx, cfg, at, target)
		if err != nil {
			return nil, err
		}
		part := &p.DecryptedEncPart
		next = &serviceTicket{ticket: p.Ticket, key: part.Key, end: part.EndTime, user: t.user, realm: t.realm}
		names := p.Ticket.SName.NameString
		switch {
		case !p.Ticket.SName.Equal(part.SName):
			return nil, errors.New("the KDC sent a ticket with another name than it says")
		case slices.Equal(names, target.NameString):
			return next, nil
		case len(names) != 2 || names[0] != "krbtgt":
			return nil, fmt.Errorf("the KDC sent a ticket for %q", p.Ticket.SName.PrincipalNameString())
		}
		at = names[1]
	}
	return nil, fmt.Errorf("the KDCs refer more than %d times", maxReferrals)
}

// ask sends one request for a ticket to the KDC of a realm.
func (t *serviceTicket) ask(ctx context.Context, cfg *config.Config, realm string, target types.PrincipalName) (*messages.TGSRep, error) {
	q, err := messages.NewTGSReq(t.user, realm, cfg, t.ticket, t.key, target, false)
	if err != nil {
		return nil, err
	}
	b, err := q.Marshal()
	if err != nil {
		return nil, err
	}
	if b, err = sendToKDC(ctx, cfg, realm, b); err != nil {
		return nil, err
	}
	p := new(messages.TGSRep)
	if err := p.Unmarshal(b); err != nil {
		return nil, err
	}
	if _, err := checkKey(t.key); err != nil {
		return nil, err
	}
	if err := p.DecryptEncPart(t.key); err != nil {
		return nil, err
	}
	if ok, err := p.Verify(cfg, q); !ok {
		return nil, err
	}
	return p, nil
}
