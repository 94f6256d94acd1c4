package main

import (
	"fmt"
	"os"
	"strings"

	"lwio"
	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/secret"
	"lwio/kerberos"
)

// kerberosServer returns the server's part of Kerberos; nil without a keytab.
func kerberosServer(o *config.Options) (*kerberos.Server, error) {
	if o.Keytab == "" {
		return nil, nil
	}
	content, err := secret.ReadFile(o.Keytab)
	if err != nil {
		return nil, fmt.Errorf("read keytab: %w", err)
	}
	s, err := kerberos.NewServer(kerberos.ServerConfig{Keytab: content, Realm: o.Realm})
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", o.Keytab, err)
	}
	return s, nil
}

// kerberosClient returns the client's part of Kerberos, nil for a URL that does not ask for it. Like
// the programs of MIT, it has configuration and credential cache from KRB5_CONFIG and KRB5CCNAME.
func (l logon) kerberosClient(t *lwio.Target) (lwio.KerberosClient, error) {
	if !t.Kerberos {
		return nil, nil
	}
	cache := l.env("KRB5CCNAME")
	if cache == "" {
		cache = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	if kind, path, ok := strings.Cut(cache, ":"); ok && !strings.HasPrefix(cache, "/") {
		if kind != "FILE" {
			return nil, usagef("KRB5CCNAME %s: the credential cache must be a file, as in FILE:/tmp/cache", cache)
		}
		cache = path
	}
	return &kerberos.Client{ConfigFile: l.kerberosConfig(), CacheFile: cache}, nil
}

// kerberosConfig returns the first existing file of KRB5_CONFIG; "" for the default.
func (l logon) kerberosConfig() string {
	names := strings.Split(l.env("KRB5_CONFIG"), ":")
	for _, name := range names {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return names[0]
}
