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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/systemd"
	"lwio/rdma"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// drainTime is how long an interrupted server waits for requests in flight.
const drainTime = 10 * time.Second

// serveOptions are the flags of serve.
type serveOptions struct {
	listen     string
	rdmaListen []string
	providers  string
	user       string
	readOnly   bool
	allowMD5   bool
	encryption string
	insecure   bool // --insecure-network
	metrics    string
	config     string
	audit      string
	durable    time.Duration // --durable-timeout
	keepAlive  time.Duration
	state      string
	kerberos   kerberosOptions
	limits     limitOptions
	file       *config.File // the content of config, or nil
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
users, their rights, and values of flags; the command line takes precedence. --keytab lets these users
log on by Kerberos too, as NAME@REALM. SIGHUP applies changes of users, rights and keytab, and
opens the file of the audit log again. With --state clients keep their open files and locks when the
server is killed or stopped, and started again within --durable-timeout; SIGUSR2 hands over to a new process
of the program, which may be another version, without an error of a client. Under systemd the
server notifies it, and keeps its listening sockets over a restart of the service. Files with passwords
or hashes must have mode 0600.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.config == "" && len(args) == 0:
				return usagef("serve takes one directory or more, or --config")
			case o.config != "" && (len(args) > 0 || o.user != "" || a.passwordFile != ""):
				return usagef("serve --config takes directories and users from its file")
			}
			return a.serve(cmd.Context(), &o, args, func() error { return o.readConfig(cmd) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:4450", "address and port; port 0 means any free port")
	f.StringSliceVar(&o.rdmaListen, "rdma-listen", nil, "addresses and ports of RDMA, which clients learn; by default the address of --listen and a free port")
	f.StringVar(&o.providers, "provider", providerNames(lwio.DefaultProviders()), "RDMA providers, best first, separated by commas; 'none' for SMB alone")
	f.StringVar(&o.user, "user", "", "name of the only user")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse every change")
	f.BoolVar(&o.allowMD5, "allow-md5", false, "accept clients that sign with unkeyed MD5 only (no protection)")
	f.StringVar(&o.encryption, "encryption", "", "encryption of SMB and RDMA: off, offered (each client chooses) or required (default offered on loopback, else required)")
	f.BoolVar(&o.insecure, "insecure-network", false, "do not require encryption on an address that is not loopback: others on the network can read data, and change data of RDMA")
	f.StringVar(&o.metrics, "metrics", "", "address and port for Prometheus, at /metrics, and for probes, at /livez and /readyz; it shows names of users and addresses of clients, without a password")
	f.StringVar(&o.config, "config", "", "file in TOML with shares, users, rights and values of flags")
	f.StringVar(&o.audit, "audit", "", "file for the audit log, in JSON: logons, refusals, opens and changes of files; '-' is the standard error")
	f.DurationVar(&o.durable, "durable-timeout", server.DefaultDurableTimeout, "most time for which open files and locks wait for a client that has lost the connection; 0 means that they end with it")
	f.DurationVar(&o.keepAlive, "keep-alive", server.DefaultKeepAlive, "time after which the SMB connection of a client that does not respond ends; 0 for no check")
	f.StringVar(&o.state, "state", "", "directory in which the opens and locks of clients outlive the death and a restart of the server (not of the host)")
	o.kerberos.register(cmd)
	o.limits.register(cmd)
	return cmd
}

// serve runs a server until ctx ends, or another process takes over. configure reads the configuration file
// into o.
func (a *app) serve(ctx context.Context, o *serveOptions, args []string, configure func() error) (err error) {
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
	if err := configure(); err != nil {
		return err
	}
	if s.config, err = s.o.serverConfig(a.providersOn(&s.sockets)); err != nil {
		return err
	}
	s.log, s.audit = a.serveLogger(context.WithoutCancel(ctx), s.o.audit) // also after the end of ctx
	if s.service, err = a.served(*s.o, args, &s.sockets, s.log); err != nil {
		return err
	}
	served, err := rootsOf(s.service.shares)
	if err == nil {
		err = served.checkApart(s.o.ownFiles(a.passwordFile))
	}
	if err == nil && s.audit != nil {
		err = s.audit.reopen()
	}
	if err != nil {
		closeShares(s.service.shares)
		return err
	}
	if s.audit != nil {
		defer func() { err = errors.Join(err, s.audit.close()) }()
	}
	if s.service.reload != nil {
		s.service.reload.roots = served
	}
	files, err := vfs.New(vfs.Config{Shares: s.service.shares, MaxOpens: s.o.limits.files, Logger: s.log})
	if errors.Is(err, fs.ErrExist) {
		return usagef("two shares have the same name; name one of them otherwise, as in NAME=DIR: %w", err)
	}
	if err != nil {
		return err
	}
	defer files.Close()
	s.config.FS, s.config.Lookup, s.config.Logger = files, s.service.access.lookup, s.log
	if s.service.kerberos != nil {
		s.config.Kerberos, s.config.RequireKerberos = s.service.kerberos, s.o.kerberos.required
	}
	return s.run(ctx)
}

// readConfig reads the configuration file, if there is one, and sets the flags to its values that the
// command line does not have.
func (o *serveOptions) readConfig(cmd *cobra.Command) (err error) {
	if o.config == "" {
		return nil
	}
	if o.file, err = config.Read(o.config); err != nil {
		return err
	}
	for key, value := range o.file.Settings() {
		f := cmd.Flags().Lookup(key)
		if f.Changed {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("%s: %s: %w", o.config, key, err)
		}
	}
	return nil
}

// serverConfig returns the configuration of the server, without files, users and log.
func (o *serveOptions) serverConfig(all []rdma.Provider) (cfg server.Config, err error) {
	cfg.AllowMD5, cfg.StateDir = o.allowMD5, o.state
	for _, d := range []struct {
		flag  string
		value time.Duration
		field *time.Duration
	}{
		{"durable-timeout", o.durable, &cfg.DurableTimeout}, {"keep-alive", o.keepAlive, &cfg.KeepAlive},
	} {
		if *d.field = d.value; d.value < 0 {
			return cfg, usagef("--%s %v: it must not be negative", d.flag, d.value)
		}
		if d.value == 0 {
			*d.field = -1
		}
	}
	if cfg.Limits, err = o.limits.limits(); err != nil {
		return cfg, err
	}
	if cfg.RDMAListen, err = addressesOf(o.rdmaListen); err != nil {
		return cfg, err
	}
	if cfg.Encryption, err = o.chosenEncryption(); err != nil {
		return cfg, err
	}
	if _, _, err := net.SplitHostPort(o.metrics); o.metrics != "" && err != nil {
		return cfg, usagef("--metrics %s: %w", o.metrics, err)
	}
	cfg.Providers, err = pickProviders(o.providers, all)
	return cfg, err
}

// isLoopback reports whether --listen and --rdma-listen name loopback addresses only.
func (o *serveOptions) isLoopback() (bool, error) {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return false, usagef("--listen %s: %w", o.listen, err)
	}
	rdmaListen, err := addressesOf(o.rdmaListen)
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(host)
	beyond := func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() }
	return (host == "localhost" || ip != nil && ip.IsLoopback()) && !slices.ContainsFunc(rdmaListen, beyond), nil
}

// chosenEncryption returns the encryption of the server. Beyond loopback less than required needs
// --insecure-network.
func (o *serveOptions) chosenEncryption() (server.Encryption, error) {
	loopback, err := o.isLoopback()
	switch {
	case err != nil:
		return 0, err
	case o.encryption == "" && (loopback || o.insecure):
		return server.EncryptionOffered, nil
	case o.encryption == "":
		return server.EncryptionRequired, nil
	}
	e, err := encryptionOf(o.encryption)
	if err == nil && e != server.EncryptionRequired && !loopback && !o.insecure {
		err = usagef("--listen %s --encryption %s: an address that is not loopback needs encryption, or --insecure-network", o.listen, e)
	}
	return e, err
}

// encryptionOf returns the choice that --encryption names.
func encryptionOf(name string) (server.Encryption, error) {
	for _, e := range []server.Encryption{server.EncryptionOff, server.EncryptionOffered, server.EncryptionRequired} {
		if e.String() == name {
			return e, nil
		}
	}
	return 0, usagef("--encryption %s: it is off, offered or required", name)
}

// addressesOf reads the addresses of --rdma-listen.
func addressesOf(list []string) (at []netip.AddrPort, err error) {
	for _, text := range list {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, usagef("--rdma-listen: %w", err)
		}
		at = append(at, a)
	}
	return at, nil
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
