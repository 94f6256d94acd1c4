package kerberos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// DefaultConfigFile is the default of Client.ConfigFile.
const DefaultConfigFile = "/etc/krb5.conf"

// Client gets tickets for a user. It is for lwio.Config.Kerberos. The zero value works for users with
// a password. The fields must not change while the Client is used. Safe for concurrent use.
//
// With a password, each logon gets a new ticket from the KDC. Without one, it takes the ticket of the
// service from the credential cache, or gets it with the cached ticket of the user. The file is read at
// each logon, so a later kinit takes effect.
type Client struct {
	// ConfigFile is the configuration of Kerberos. Default: DefaultConfigFile.
	ConfigFile string
	// CacheFile is the credential cache, in the format of a file. Without it only users with a
	// password can log on. On systems with Unix permissions it is a file of this user or of root that no
	// other user may change.
	CacheFile string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// aesTypes are the encryption types that the client asks for, the first one preferred.
var aesTypes = []int32{
	etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
	etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128,
}

// serviceTicket is a ticket with its session key, and the client that it is for.
type serviceTicket struct {
	ticket messages.Ticket
	key    types.EncryptionKey
	end    time.Time
	user   types.PrincipalName
	realm  string
}

// Begin gets a ticket for a service, and makes the request. It is the interface to package lwio. An
// exchange with the KDC takes at most 5 s for each address and transport of the KDC.
//
// Errors: fs.ErrPermission if the KDC refuses the user or the password, or for a cache that another user may have
// written; fs.ErrNotExist for a missing
// file.
//
// Source: [RFC 4120 §3.1], [RFC 4120 §3.3]
func (c *Client) Begin(ctx context.Context, cr smbauth.KerberosCredentials) (x smbauth.KerberosExchange, err error) {
	defer func() {
		if err != nil {
			x, err = nil, fmt.Errorf("kerberos: ticket for %s/%s: %w", service, cr.Host, err)
		}
	}()
	defer guard(&err)
	t, err := c.ticket(ctx, cr)
	if err != nil {
		return nil, err
	}
	return newExchange(t, c.clock()())
}

func (c *Client) clock() func() time.Time {
	if c.Now != nil {
		return c.Now
	}
	return time.Now
}

// ticket returns a ticket for a service.
func (c *Client) ticket(ctx context.Context, cr smbauth.KerberosCredentials) (*serviceTicket, error) {
	name := c.ConfigFile
	if name == "" {
		name = DefaultConfigFile
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	cfg, err := config.NewFromString(string(text))
	if ignored := new(config.UnsupportedDirective); err != nil && (cfg == nil || !errors.As(err, ignored)) {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	cfg.LibDefaults.DefaultTGSEnctypeIDs = aesTypes
	cfg.LibDefaults.DefaultTktEnctypeIDs = aesTypes
	cfg.LibDefaults.PermittedEnctypeIDs = aesTypes
	target := types.NewPrincipalName(nametype.KRB_NT_SRV_INST, service+"/"+cr.Host)
	get := c.fromCache
	if cr.Password != "" {
		get = withPassword
	}
	t, err := get(ctx, cfg, cr, target)
	return t, refusal(err)
}

// withPassword gets a ticket with the password of a user.
func withPassword(ctx context.Context, cfg *config.Config, cr smbauth.KerberosCredentials, target types.PrincipalName) (*serviceTicket, error) {
	realm := cr.Realm
	if realm == "" {
		realm = cfg.LibDefaults.DefaultRealm
	}
	if cr.User == "" || realm == "" {
		return nil, errors.New("a password needs a user and a realm")
	}
	tgt, err := ticketOfUser(ctx, cfg, cr.User, realm, cr.Password)
	if err != nil {
		return nil, err
	}
	return tgt.exchange(ctx, cfg, target)
}

// fromCache takes a ticket from the credential cache, or gets it with the ticket of the user there.
func (c *Client) fromCache(ctx context.Context, cfg *config.Config, cr smbauth.KerberosCredentials, target types.PrincipalName) (*serviceTicket, error) {
	if c.CacheFile == "" {
		return nil, errors.New("neither a password nor a credential cache")
	}
	cache, err := readCache(c.CacheFile)
	if err != nil {
		return nil, fmt.Errorf("credential cache: %w", err)
	}
	user, realm := cache.GetClientPrincipalName(), cache.GetClientRealm()
	name := user.PrincipalNameString()
	if cr.User != "" && cr.User != name || cr.Realm != "" && cr.Realm != realm {
		return nil, fmt.Errorf("the credential cache %s is of %s@%s, not of %s: %w", c.CacheFile, name, realm, cr.User, fs.ErrPermission)
	}
	t, err := c.cached(cache, target)
	if err != nil || t != nil {
		return t, err
	}
	tgt, err := c.cached(cache, types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+realm))
	if err != nil {
		return nil, err
	}
	if tgt == nil {
		return nil, fmt.Errorf("the credential cache %s has no valid ticket of %s@%s, run kinit: %w", c.CacheFile, name, realm, fs.ErrPermission)
	}
	return tgt.exchange(ctx, cfg, target)
}

// maxCache bounds a credential cache, in bytes.
const maxCache = 16 << 20

// readCache reads a credential cache, which only this user and root may have written.
func readCache(name string) (cache *credentials.CCache, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = checkOwner(info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxCache+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxCache:
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxCache)
	}
	defer func() {
		if recover() != nil {
			cache, err = nil, fmt.Errorf("%s: damaged, or no credential cache", name)
		}
	}()
	cache = new(credentials.CCache)
	// The library reads beyond the length, up to the capacity, and panics there.
	return cache, cache.Unmarshal(slices.Clip(content))
}

// cached returns the valid ticket for a service in a credential cache; nil if there is none.
func (c *Client) cached(cache *credentials.CCache, target types.PrincipalName) (*serviceTicket, error) {
	var best *credentials.Credential
	now := c.clock()()
	for _, e := range cache.GetEntries() {
		_, usable := cipherOf(e.Key.KeyType)
		if usable && e.Server.PrincipalName.Equal(target) && now.Before(e.EndTime) && (best == nil || best.EndTime.Before(e.EndTime)) {
			best = e
		}
	}
	if best == nil {
		return nil, nil
	}
	t := &serviceTicket{key: best.Key, end: best.EndTime, user: cache.GetClientPrincipalName(), realm: cache.GetClientRealm()}
	if err := t.ticket.Unmarshal(best.Ticket); err != nil {
		return nil, fmt.Errorf("credential cache %s: %w", c.CacheFile, err)
	}
	return t, nil
}

// refusal adds fs.ErrPermission to an error that the KDC has sent, and to a reply that the password does not
// decrypt.
func refusal(err error) error {
	var k krberror.Krberror
	var refused messages.KRBError
	if errors.As(err, &refused) || errors.As(err, &k) && k.RootCause == krberror.DecryptingError {
		return fmt.Errorf("%w: %w", err, fs.ErrPermission)
	}
	return err
}
