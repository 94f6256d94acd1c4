package kerberos

import (
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	testRealm = "TEST.LWIO"
	testHost  = "files.test.lwio"
	aes256    = etypeID.AES256_CTS_HMAC_SHA1_96
)

// kdc issues tickets without a network. It has the keys of the services.
type kdc struct {
	kt *keytab.Keytab
}

// newKDC returns a KDC with the service of the tests, which has a key of each encryption type.
func newKDC(t testing.TB) *kdc {
	t.Helper()
	d := &kdc{keytab.New()}
	for _, e := range aesTypes {
		d.add(t, "cifs/"+testHost, testRealm, 1, e)
	}
	return d
}

// add adds a key of a service.
func (d *kdc) add(t testing.TB, name, realm string, kvno uint8, etype int32) {
	t.Helper()
	at := time.Unix(1_700_000_000+int64(kvno), 0)
	if err := d.kt.AddEntry(name, realm, "password", at, kvno, etypeID.RC4_HMAC); err != nil { // the fastest
		t.Fatal(err)
	}
	if k, ok := cipherOf(etype); ok {
		last := &d.kt.Entries[len(d.kt.Entries)-1]
		last.Key = types.EncryptionKey{KeyType: etype, KeyValue: random(k.key)}
	}
}

// keytab returns the content of a keytab with all keys.
func (d *kdc) keytab(t testing.TB) []byte {
	t.Helper()
	b, err := d.kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// key returns the key of a service.
func (d *kdc) key(t testing.TB, name, realm string, kvno int, etype int32) types.EncryptionKey {
	t.Helper()
	key, _, err := d.kt.GetEncryptionKey(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, name), realm, kvno, etype)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ticket has the parts of a ticket, for tests to change.
type ticket struct {
	service, realm string
	kvno           int
	etype          int32
	content        messages.EncTicketPart
}

// newTicket returns a ticket of a user that is valid for an hour around now.
func newTicket(user string, etype int32, now time.Time) *ticket {
	now = now.UTC().Truncate(time.Second)
	k, _ := cipherOf(etype)
	return &ticket{service: "cifs/" + testHost, realm: testRealm, kvno: 1, etype: etype, content: messages.EncTicketPart{
		Flags:  types.NewKrbFlags(),
		Key:    types.EncryptionKey{KeyType: etype, KeyValue: random(k.key)},
		CRealm: testRealm, CName: types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, user),
		AuthTime: now.Add(-time.Hour), StartTime: now.Add(-time.Minute), EndTime: now.Add(time.Hour),
	}}
}

// issue encrypts a ticket with a key.
func (k *ticket) issue(t testing.TB, key types.EncryptionKey) *serviceTicket {
	t.Helper()
	b, err := asn1.Marshal(k.content)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := encrypt(asn1tools.AddASNAppTag(b, asnAppTag.EncTicketPart), key, usageTicket)
	if err != nil {
		t.Fatal(err)
	}
	return &serviceTicket{
		ticket: messages.Ticket{
			TktVNO: 5, Realm: k.realm, SName: types.NewPrincipalName(nametype.KRB_NT_SRV_INST, k.service),
			EncPart: types.EncryptedData{EType: k.etype, KVNO: k.kvno, Cipher: sealed.Cipher},
		},
		key: k.content.Key, end: k.content.EndTime, user: k.content.CName, realm: k.content.CRealm,
	}
}

// seal encrypts an authenticator, after a test has changed it.
func (x *exchange) seal(t testing.TB) {
	t.Helper()
	b, err := x.auth.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if x.request.Authenticator, err = encrypt(b, x.t.key, usageAuthenticator); err != nil {
		t.Fatal(err)
	}
}

// newServer returns a Server with the keys of a KDC.
func newServer(t testing.TB, d *kdc, now func() time.Time) *Server {
	t.Helper()
	s, err := NewServer(ServerConfig{Keytab: d.keytab(t), Realm: testRealm, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin returns the exchange of a user with a valid ticket.
func (d *kdc) begin(t testing.TB, user string, etype int32) *exchange {
	t.Helper()
	return d.exchange(t, newTicket(user, etype, time.Now()))
}

// exchange returns the exchange with a ticket, under the key that the ticket names.
func (d *kdc) exchange(t testing.TB, k *ticket) *exchange {
	t.Helper()
	x, err := newExchange(k.issue(t, d.key(t, k.service, k.realm, k.kvno, k.etype)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

var _ smbauth.KerberosServer = (*Server)(nil)
var _ smbauth.KerberosClient = (*Client)(nil)
