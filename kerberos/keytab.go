package kerberos

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// service is the first component of the name of the service.
const service = "cifs"

// serviceKey is a key of the service.
type serviceKey struct {
	realm, host string
	kvno        uint32
	key         types.EncryptionKey
}

// parseKeytab returns the keys of the service in the content of a keytab. Keys of other services, and
// of encryption types that are not used, are left out. An error has no content of the keytab.
func parseKeytab(content []byte) (keys []serviceKey, err error) {
	defer func() {
		if recover() != nil {
			keys, err = nil, errKeytab
		}
	}()
	kt := keytab.New()
	if kt.Unmarshal(content) != nil {
		return nil, errKeytab // the error of the library has keys in its text
	}
	for _, e := range kt.Entries {
		names := e.Principal.Components
		if _, err := checkKey(e.Key); err != nil || !isService(names) {
			continue
		}
		keys = append(keys, serviceKey{realm: e.Principal.Realm, host: names[1], kvno: e.KVNO, key: e.Key})
	}
	if len(keys) == 0 {
		return nil, errNoKey
	}
	return keys, nil
}

var (
	errKeytab = errors.New("not a keytab, or a damaged one")
	errNoKey  = errors.New("no AES key of a service cifs/HOST in the keytab")
)

// isService reports whether a name is the name of the service on a host.
func isService(names []string) bool {
	return len(names) == 2 && strings.EqualFold(names[0], service) && names[1] != ""
}

// keysIn returns the keys of a realm, which has some, and the realm; "" is the realm of all keys. Keys of
// other realms are left out: their KDC could issue tickets for the users of this realm.
func keysIn(keys []serviceKey, realm string) (of []serviceKey, _ string, err error) {
	if realm == "" {
		realm = keys[0].realm
		if slices.ContainsFunc(keys, func(k serviceKey) bool { return k.realm != realm }) {
			return nil, "", errors.New("the keytab has keys of several realms: name the realm of the users")
		}
	}
	for _, k := range keys {
		if k.realm == realm {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		return nil, "", fmt.Errorf("no AES key of a service cifs/HOST@%s in the keytab", realm)
	}
	return of, realm, nil
}

// keysOf returns the keys that can decrypt a ticket: same realm, service, encryption type and
// version. A ticket without a version can have any.
func keysOf(keys []serviceKey, q *smbauth.KerberosRequest) (fitting []types.EncryptionKey, err error) {
	named := false
	for _, k := range keys {
		if k.realm != q.Realm || !strings.EqualFold(k.host, q.Service[1]) {
			continue
		}
		named = true
		if k.key.KeyType == q.Ticket.Type && (q.Ticket.KVNO == 0 || q.Ticket.KVNO == k.kvno) {
			fitting = append(fitting, k.key)
		}
	}
	switch {
	case !named:
		return nil, fmt.Errorf("no key of the service %q in realm %q: %w", strings.Join(q.Service, "/"), q.Realm, smbauth.ErrTicket)
	case len(fitting) == 0:
		return nil, fmt.Errorf("no key of version %d and encryption type %d: %w", q.Ticket.KVNO, q.Ticket.Type, smbauth.ErrTicket)
	}
	return fitting, nil
}
