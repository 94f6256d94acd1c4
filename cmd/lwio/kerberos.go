package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/secret"
	"lwio/kerberos"
)

// kerberosOptions are the flags of serve for Kerberos.
type kerberosOptions struct {
	keytab, realm string
	required      bool
}

// register adds the flags.
func (k *kerberosOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.keytab, "keytab", "", "keytab with the keys of the service cifs/HOST: offer Kerberos")
	f.StringVar(&k.realm, "realm", "", "Kerberos realm of the users (default: the realm of the keytab)")
	f.BoolVar(&k.required, "require-kerberos", false, "refuse NTLM, so that users need no password on the server")
}

// server returns the server's part of Kerberos; nil without a keytab.
func (k *kerberosOptions) server() (*kerberos.Server, error) {
	switch {
	case *k == (kerberosOptions{}):
		return nil, nil
	case k.keytab == "":
		return nil, usagef("--realm and --require-kerberos need a --keytab")
	}
	content, err := secret.ReadFile(k.keytab)
	if err != nil {
		return nil, fmt.Errorf("read keytab: %w", err)
	}
	s, err := kerberos.NewServer(kerberos.ServerConfig{Keytab: content, Realm: k.realm})
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", k.keytab, err)
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
