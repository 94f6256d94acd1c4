package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/systemd"
	"lwio/rdma"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// drainTime is how long an interrupted server waits for requests in flight.
const drainTime = 10 * time.Second

// serveOptions are the flags of serve, and the settings that they make together with the configuration file.
type serveOptions struct {
	config.Options
	user       string
	configFile string
	check      bool
	asJSON     bool

	file  *config.File          // the content of configFile, or nil
	flags config.Options        // the settings of the command line alone
	given func(key string) bool // reports a flag of the command line
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [flags] {[NAME=]DIR ... | --config FILE}",
		Short: "Serve directories",
		Long: `Serve directories until interrupted. Once ready it prints one line per share,
the URL that clients use. Without --password-file it chooses a user and a random
password for this run, and listens on loopback addresses only.

With --user, the first line of the password file is that user's password. Without it,
each line is a user, as 'lwio user add' writes it. --config names a file in TOML with shares,
users, their rights, and values of flags; the command line takes precedence. --check reports the mistakes
of all of these without serving. --keytab lets these users
log on by Kerberos too, as NAME@REALM. SIGHUP applies changes of users, rights, keytab and some other settings, and
opens the file of the audit log again. With --state clients keep their open files and locks when the
server is killed or stopped, and started again within --durable-timeout; SIGUSR2 hands over to a new process
of the program, which may be another version, without an error of a client. Under systemd the
server notifies it, and keeps its listening sockets over a restart of the service. Files with passwords
or hashes must have mode 0600.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.configFile == "" && len(args) == 0:
				return usagef("serve takes one directory or more, or --config")
			case o.configFile != "" && (len(args) > 0 || o.user != "" || a.passwordFile != ""):
				return usagef("serve --config takes directories and users from its file")
			case o.asJSON && !o.check:
				return usagef("--json needs --check")
			}
			o.given = func(key string) bool { return cmd.Flags().Lookup(key).Changed }
			if o.check {
				return a.checkServe(&o, args)
			}
			return a.serve(cmd.Context(), &o, args)
		},
	}
	f := cmd.Flags()
	config.Register(f, &a.settings, false)
	f.StringVar(&o.user, "user", "", "name of the only user")
	f.StringVar(&o.configFile, "config", "", "file in TOML with shares, users, rights and values of flags")
	f.BoolVar(&o.check, "check", false, "report mistakes of flags, configuration, users, shares and files, and do not serve")
	f.BoolVar(&o.asJSON, "json", false, "print the report of --check as JSON")
	return cmd
}

// serve runs a server until ctx ends, or another process takes over.
func (a *app) serve(ctx context.Context, o *serveOptions, args []string) (err error) {
	s := &serving{app: a, o: o, supervisor: systemd.FromEnvironment(a.env)}
	defer s.sockets.Close()
	if s.predecessor, err = inherit(a.env, &s.sockets); err != nil {
		if errors.Is(err, errLaunched) {
			err = nil
		}
		return err
	}
	defer func() { s.predecessor.end(err) }()
	defer s.awaitSignals()()
	if err := a.configure(o); err != nil {
		return asUsage(err)
	}
	if s.config, err = o.serverConfig(a.providersOn(&s.sockets)); err != nil {
		return asUsage(err)
	}
	s.log, s.audit = a.serveLogger(o.Audit)
	if s.service, err = a.served(*o, args, &s.sockets, s.log.Logger); err != nil {
		return err
	}
	served, err := rootsOf(s.service.shares)
	if err == nil {
		err = served.checkApart(o.ownFiles(a.passwordFile))
	}
	if err == nil && s.audit != nil {
		err = s.audit.reopen(s.audit.name)
	}
	if err != nil {
		closeShares(s.service.shares)
		return err
	}
	if s.audit != nil {
		defer func() { err = errors.Join(err, s.audit.close()) }()
	}
	if r := s.service.reload; r != nil {
		r.roots, r.level, r.audit = served, s.log.level, s.audit
	}
	files, err := vfs.New(vfs.Config{Shares: s.service.shares, MaxOpens: o.Files, Logger: s.log.Logger})
	if errors.Is(err, fs.ErrExist) {
		return usagef("two shares have the same name; name one of them otherwise, as in NAME=DIR: %w", err)
	}
	if err != nil {
		return err
	}
	defer files.Close()
	s.config.FS, s.config.Lookup, s.config.Logger = files, s.service.access.lookup, s.log.Logger
	if s.service.kerberos != nil {
		s.config.Kerberos = s.service.kerberos
	}
	return s.run(ctx)
}

// configure makes the settings of the command line and of the configuration file, if there is one, and checks them.
//
// Errors: *config.Mistake, joined.
func (a *app) configure(o *serveOptions) (err error) {
	o.flags, o.Options = a.settings, a.settings
	if o.configFile != "" {
		if o.file, err = config.Read(o.configFile); err != nil {
			return err
		}
		if o.Options, err = o.file.Apply(o.flags, o.given); err != nil {
			return err
		}
		a.settings = o.Options
	}
	return o.file.Check(&o.Options, o.given)
}

// asUsage makes usage errors of the mistakes on the command line.
func asUsage(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the result of errors.Join
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, asUsage(e))
		}
		return errors.Join(all...)
	}
	var m *config.Mistake
	if errors.As(err, &m) && m.File == "" {
		return usageError{err}
	}
	return err
}

// serverConfig returns the configuration of the server, without files, users and log.
//
// Precondition: the settings have no contradiction.
func (o *serveOptions) serverConfig(all []rdma.Provider) (server.Config, error) {
	cfg := server.Config{
		ServerName: o.ServerName, AllowMD5: o.AllowMD5, ImmediateData: o.ImmediateData, RequireKerberos: o.RequireKerberos,
		Encryption: o.chosenEncryption(), Leases: o.chosenLeases(), StateDir: o.State,
		DurableTimeout: orNone(o.DurableTimeout), KeepAlive: orNone(o.KeepAlive), Limits: limitsOf(&o.Options),
	}
	for _, at := range o.RDMAListen {
		a, err := netip.ParseAddrPort(at)
		if err != nil {
			return cfg, o.file.MistakeAt(err, o.given, "rdma-listen")
		}
		cfg.RDMAListen = append(cfg.RDMAListen, a)
	}
	var err error
	if cfg.Providers, err = pickProviders(o.Providers, all); err != nil {
		return cfg, o.file.MistakeAt(err, o.given, "provider")
	}
	return cfg, nil
}

// chosenEncryption returns the encryption of the server: by default required beyond loopback.
func (o *serveOptions) chosenEncryption() server.Encryption {
	switch o.Encryption {
	case server.EncryptionOff.String():
		return server.EncryptionOff
	case server.EncryptionRequired.String():
		return server.EncryptionRequired
	case "":
		if !o.Loopback() && !o.InsecureNetwork {
			return server.EncryptionRequired
		}
	}
	return server.EncryptionOffered
}

// chosenLeases returns the leases that the server grants.
func (o *serveOptions) chosenLeases() server.Leases {
	switch o.Leases {
	case server.LeasesOfFiles.String():
		return server.LeasesOfFiles
	case server.LeasesOff.String():
		return server.LeasesOff
	}
	return server.LeasesAll
}

// openShares opens the directories of the command line.
func openShares(args []string, readOnly bool) ([]vfs.Share, error) {
	var shares []vfs.Share
	for _, arg := range args {
		name, dir, ok := strings.Cut(arg, "=")
		if !ok || strings.ContainsAny(name, `/\`) {
			// No name of a share has a separator: this is a directory.
			dir = arg
			abs, err := filepath.Abs(dir)
			if err != nil {
				closeShares(shares)
				return nil, err
			}
			name = filepath.Base(abs)
		}
		backend, err := posix.OpenDir(dir)
		if err != nil {
			closeShares(shares)
			return nil, fmt.Errorf("serve %s: %w", dir, err)
		}
		shares = append(shares, vfs.Share{Name: name, Backend: backend, ReadOnly: readOnly})
	}
	return shares, nil
}

// closeShares closes the directories of shares that are not served.
func closeShares(shares []vfs.Share) {
	for _, s := range shares {
		s.Backend.Close()
	}
}

// shareURL is the line that serve prints for a share.
func shareURL(user *url.Userinfo, addr net.Addr, share string) string {
	host := addr.String()
	if ap, ok := addr.(*net.TCPAddr); ok && ap.IP.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = net.JoinHostPort(name, fmt.Sprint(ap.Port))
		}
	}
	u := url.URL{Scheme: "lwio", User: user, Host: host, Path: "/" + share}
	return u.String()
}
