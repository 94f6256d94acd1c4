package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/nbd"
	"lwio/cmd/lwio/internal/secret"
)

// nbdOptions are the flags of nbd.
type nbdOptions struct {
	listen, mode        string
	names               []string
	readOnly, insecure  bool
	cert, key, clientCA string
	most                int
	drain               time.Duration
}

func (a *app) nbdCommand() *cobra.Command {
	o := nbdOptions{drain: drainTime}
	cmd := &cobra.Command{
		Use:   "nbd --listen ADDRESS URL ...",
		Short: "Serve files of a share as block devices, to QEMU, kernels and other NBD clients",
		Long: `Serve files by the NBD protocol until interrupted. The address is unix:///PATH, a socket that
only this user can open, or tcp://HOST:PORT, which on loopback every user of the host can open.

    lwio nbd --listen unix:///run/user/1000/disk.sock lwio://alice@server/images/disk.raw
    qemu-img info nbd+unix:///disk.raw?socket=/run/user/1000/disk.sock

Each URL names an existing file, whose size is that of the device. Once ready, the command
prints the NBD URI of each export. Requests wait while the connection to the server is
replaced, at most for --timeout.

An address that is not loopback needs --tls-cert, --tls-key and --tls-client-ca, which
authenticates clients, or --insecure-network. Keys that both sides share in advance (TLS-PSK) are not
supported: the TLS of Go has none.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("nbd needs the URL of a file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.nbd(cmd.Context(), o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "", "address to take connections at")
	f.StringVar(&o.mode, "socket-mode", "0600", "permissions of a Unix socket, in octal")
	f.StringArrayVar(&o.names, "export-name", nil, "name of an export; repeated for several URLs, in their order (default the name of the file)")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse writes")
	f.StringVar(&o.cert, "tls-cert", "", "file with the certificate of the server, in PEM; TLS is then required")
	f.StringVar(&o.key, "tls-key", "", "file with its private key, in PEM, which no other user may read")
	f.StringVar(&o.clientCA, "tls-client-ca", "", "file with authorities, in PEM; each client needs a certificate of one of them")
	f.BoolVar(&o.insecure, "insecure-network", false, "do not authenticate clients on an address that is not loopback: all of the network can read and write the files")
	f.IntVar(&o.most, "max-connections", 64, "limit of connections at a time; further ones wait")
	f.Var((*positive)(&o.drain), "drain", "how long requests in flight may take after an interrupt")
	return a.clientFlags(cmd)
}

// nbd serves files until ctx ends.
func (a *app) nbd(ctx context.Context, o nbdOptions, urls []string) (err error) {
	at, err := o.check(urls)
	if err != nil {
		return err
	}
	cfg := &nbd.Config{
		MaxConnections: o.most, Timeout: a.timeout, Drain: o.drain,
		Logger: a.logger(context.WithoutCancel(ctx)),
	}
	if cfg.TLS, err = o.tls(); err != nil {
		return err
	}
	a.reconnect = a.timeout
	for i, arg := range urls {
		c, t, failed := a.dial(ctx, arg)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		e, failed := o.export(ctx, c, t, i)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if slices.ContainsFunc(cfg.Exports, func(other *nbd.Export) bool { return e.Name() == other.Name() }) {
			return usagef("two exports have the name %q: use --export-name", e.Name())
		}
		cfg.Exports = append(cfg.Exports, e)
	}
	l, err := o.open(ctx, at)
	if err != nil {
		return err
	}
	for _, e := range cfg.Exports {
		fmt.Fprintln(a.stdout, nbdURI(l.Addr(), e.Name(), cfg.TLS != nil))
	}
	return nbd.NewServer(cfg).Serve(ctx, l)
}

// check returns the address of --listen, or the first mistake of the flags.
func (o *nbdOptions) check(urls []string) (proxyAddress, error) {
	if o.listen == "" {
		return proxyAddress{}, usagef("nbd needs --listen")
	}
	at, err := parseAddress("--listen", o.listen, "tcp", "unix")
	if err != nil {
		return at, err
	}
	_, badMode := strconv.ParseUint(o.mode, 8, 9)
	switch {
	case o.most < 1:
		return at, usagef("--max-connections %d: at least 1", o.most)
	case badMode != nil:
		return at, usagef("--socket-mode %s: not permissions in octal, such as 0660", o.mode)
	case len(o.names) > len(urls):
		return at, usagef("--export-name: %d names for %d URLs", len(o.names), len(urls))
	case (o.cert == "") != (o.key == ""):
		return at, usagef("--tls-cert and --tls-key belong together")
	case o.clientCA != "" && o.cert == "":
		return at, usagef("--tls-client-ca needs --tls-cert and --tls-key")
	case !at.isLocal() && o.clientCA == "" && !o.insecure:
		return at, usagef("--listen %s: an address that is not loopback needs --tls-client-ca, or --insecure-network", o.listen)
	}
	return at, nil
}

// isLocal reports whether only programs of this host can connect to the address.
func (p proxyAddress) isLocal() bool {
	if p.scheme == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(p.address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// export opens the file of the i-th URL.
func (o *nbdOptions) export(ctx context.Context, c *lwio.Client, t *lwio.Target, i int) (*nbd.Export, error) {
	name := path.Base(t.Path)
	if i < len(o.names) {
		name = o.names[i]
	}
	e, err := nbd.OpenExport(ctx, c, nbd.ExportConfig{
		Name: name, Path: t.Path, ReadOnly: o.readOnly,
		Description: fmt.Sprintf("lwio://%s/%s/%s", t.Host, t.Share, t.Path),
	})
	if errors.Is(err, fs.ErrPermission) && !o.readOnly {
		return nil, fmt.Errorf("%w (--read-only needs no right to write)", err)
	}
	return e, err
}

// tls returns the configuration of the TLS flags; nil without them.
func (o *nbdOptions) tls() (*tls.Config, error) {
	if o.cert == "" {
		return nil, nil
	}
	cert, err := os.ReadFile(o.cert)
	if err != nil {
		return nil, err
	}
	key, err := secret.ReadFile(o.key)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", o.cert, o.key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", o.clientCA)
	}
	return c, nil
}

// open listens at the address. A Unix socket has the permissions of --socket-mode from the beginning.
func (o *nbdOptions) open(ctx context.Context, at proxyAddress) (net.Listener, error) {
	if at.scheme != "unix" {
		return at.listen(ctx, nil)
	}
	mode, err := strconv.ParseUint(o.mode, 8, 9)
	if err != nil {
		return nil, err
	}
	if c, err := net.Dial(at.scheme, at.address); err == nil {
		c.Close()
	} else if info, e := os.Lstat(at.address); e == nil && info.Mode().Type() == fs.ModeSocket && errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(at.address) // of a process that was killed; a failure comes from the listen call too
	}
	var l net.Listener
	withUmask(0o777, func() { l, err = at.listen(ctx, nil) })
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at.address, fs.FileMode(mode)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// nbdURI is the URI of an export of a listener.
func nbdURI(at net.Addr, export string, secure bool) string {
	u := url.URL{Scheme: "nbd", Path: "/" + export}
	if secure {
		u.Scheme = "nbds"
	}
	if at.Network() == "unix" {
		u.Scheme += "+unix"
		return u.Scheme + "://" + u.EscapedPath() + "?socket=" + (&url.URL{Path: at.String()}).EscapedPath()
	}
	u.Host = at.String()
	return u.String()
}
