package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/config"
	"lwio/rsock"
)

// proxyOptions are the flags of proxy.
type proxyOptions struct {
	listen, to  string
	providers   []string
	requireRDMA bool
	timeout     time.Duration
	drain       time.Duration
	most        int
}

func (a *app) proxyCommand() *cobra.Command {
	o := proxyOptions{timeout: 30 * time.Second, drain: drainTime}
	cmd := &cobra.Command{
		Use:   "proxy --listen ADDRESS --to ADDRESS",
		Short: "Carry the connections of programs that cannot be changed over RDMA",
		Long: `Take connections at one address and carry them to another until interrupted. An address
is tcp://HOST:PORT, unix:///PATH, or rsock://HOST:PORT, which uses RDMA if both hosts can,
and else TCP. Two proxies back to back, one beside the client

    lwio proxy --listen tcp://127.0.0.1:8080 --to rsock://server:9090

and one beside the server

    lwio proxy --listen rsock://:9090 --to tcp://127.0.0.1:80

let programs that know nothing of RDMA use it. Once ready the proxy prints the address it
listens at; with port 0, the chosen port.

The proxy does not encrypt or authenticate: the programs must do that themselves.`,
		Args: exactArgs(0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.proxy(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "", "address to take connections at")
	f.StringVar(&o.to, "to", "", "address to carry them to")
	o.providers = providerNames(lwio.DefaultProviders())
	f.Var((*config.ProviderList)(&o.providers), "provider", "RDMA providers, best first, separated by commas; 'none' for TCP alone")
	f.BoolVar(&o.requireRDMA, "require-rdma", false, "fail rather than fall back to TCP, on rsock addresses")
	f.Var((*positive)(&o.timeout), "timeout", "time limit of connecting")
	f.Var((*positive)(&o.drain), "drain", "how long connections may continue after an interrupt")
	f.IntVar(&o.most, "max-connections", 1000, "limit of connections at a time; further ones wait")
	return cmd
}

// proxy carries connections until ctx ends, and then drains the open connections.
func (a *app) proxy(ctx context.Context, o proxyOptions) error {
	if o.most < 1 {
		return usagef("--max-connections %d: at least 1", o.most)
	}
	providers, err := pickProviders(o.providers, a.providers())
	if err != nil {
		return usageError{err}
	}
	p := &proxy{log: a.logger(context.WithoutCancel(ctx)), drain: o.drain, places: make(chan struct{}, o.most)}
	cfg := &rsock.Config{Providers: providers, RequireRDMA: o.requireRDMA, Logger: p.log}
	from, err := parseProxyAddress("--listen", o.listen)
	if err != nil {
		return err
	}
	to, err := parseProxyAddress("--to", o.to)
	if err != nil {
		return err
	}
	p.dial = to.dialer(cfg, o.timeout)
	l, err := from.listen(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, from.at(l.Addr()))
	return p.run(ctx, l)
}

// proxyAddress is an address at which a proxy listens, or to which it connects.
type proxyAddress struct{ scheme, address string }

// parseProxyAddress reads the value of a flag.
func parseProxyAddress(flag, text string) (proxyAddress, error) {
	if text == "" {
		return proxyAddress{}, usagef("proxy needs %s", flag)
	}
	return parseAddress(flag, text, "tcp", "rsock", "unix")
}

// parseAddress reads the value of a flag, an address with one of the schemes.
func parseAddress(flag, text string, schemes ...string) (proxyAddress, error) {
	scheme, address, ok := strings.Cut(text, "://")
	a := proxyAddress{strings.ToLower(scheme), address}
	switch {
	case !ok || !slices.Contains(schemes, a.scheme):
		forms := map[string]string{"tcp": "tcp://HOST:PORT", "rsock": "rsock://HOST:PORT", "unix": "unix:///PATH"}
		var all []string
		for _, s := range schemes {
			all = append(all, forms[s])
		}
		last := len(all) - 1
		return a, usagef("%s %s: not %s or %s", flag, text, strings.Join(all[:last], ", "), all[last])
	case a.scheme == "unix":
		if address == "" {
			return a, usagef("%s %s: there is no path", flag, text)
		}
		return a, nil
	}
	a.address = strings.TrimSuffix(address, "/")
	if _, _, err := net.SplitHostPort(a.address); err != nil {
		return a, usagef("%s %s: %w", flag, text, err)
	}
	return a, nil
}

// listen listens at the address.
func (p proxyAddress) listen(ctx context.Context, cfg *rsock.Config) (net.Listener, error) {
	if p.scheme == "rsock" {
		return (&rsock.ListenConfig{Config: cfg}).Listen(ctx, "tcp", p.address)
	}
	return new(net.ListenConfig).Listen(ctx, p.scheme, p.address)
}

// at is the address as it is printed, of a listener at addr.
func (p proxyAddress) at(addr net.Addr) string { return p.scheme + "://" + addr.String() }

// dialer returns the function that connects to the address.
func (p proxyAddress) dialer(cfg *rsock.Config, timeout time.Duration) func(context.Context) (net.Conn, error) {
	if p.scheme == "rsock" {
		d := &rsock.Dialer{Config: cfg, NetDialer: &net.Dialer{Timeout: timeout}}
		return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", p.address) }
	}
	d := &net.Dialer{Timeout: timeout}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, p.scheme, p.address) }
}

// proxy carries the connections of one listener.
type proxy struct {
	log    *slog.Logger
	drain  time.Duration
	dial   func(context.Context) (net.Conn, error)
	places chan struct{} // one for each connection
	wg     sync.WaitGroup
}

// proxyPause is the wait after a failed Accept, for example because of too few descriptors.
const proxyPause = 50 * time.Millisecond

// run takes connections until ctx ends, and then waits for the open connections. It resets
// connections that last longer than the drain time.
func (p *proxy) run(ctx context.Context, l net.Listener) error {
	working, resetAll := context.WithCancel(context.WithoutCancel(ctx))
	defer resetAll()
	stop := context.AfterFunc(ctx, func() {
		if err := l.Close(); err != nil {
			p.log.Warn("proxy: stop listening", "err", err)
		}
		time.AfterFunc(p.drain, resetAll)
	})
	defer stop()
	for {
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			p.wg.Wait()
			return nil
		}
		c, err := l.Accept()
		switch {
		case err == nil:
			p.wg.Go(func() {
				defer func() { <-p.places }()
				p.carry(working, c)
			})
			continue
		case errors.Is(err, net.ErrClosed):
			p.wg.Wait()
			return nil
		}
		<-p.places
		p.log.Warn("proxy: accept", "addr", l.Addr(), "err", err)
		select {
		case <-time.After(proxyPause):
		case <-ctx.Done():
		}
	}
}

// carry connects c to the other address and moves bytes both ways until both have ended. If
// one side is reset, or ctx ends, the other one is reset too.
func (p *proxy) carry(ctx context.Context, c net.Conn) {
	log := p.log.With("from", c.RemoteAddr())
	to, err := p.dial(ctx)
	if err != nil {
		log.Warn("proxy: connect", "err", err)
		hangUp(c)
		return
	}
	log.Debug("proxy: connected", "by", transportOf(c), "to", to.RemoteAddr(), "over", transportOf(to))
	var once sync.Once
	broken := func(why error) {
		once.Do(func() {
			log.Info("proxy: connection reset", "err", why)
			hangUp(c)
			hangUp(to)
		})
	}
	defer context.AfterFunc(ctx, func() { broken(errDrained) })()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{to, c}, {c, to}} {
		wg.Go(func() {
			if err := forward(way[0], way[1]); err != nil {
				broken(err)
			}
		})
	}
	wg.Wait()
	closeAfter(c)
	closeAfter(to)
	log.Debug("proxy: done")
}

// errDrained is the cause of a reset when the drain time is over.
var errDrained = errors.New("the proxy was interrupted, and the connection takes too long")

// forward copies one direction of a connection, and its end, to another connection.
func forward(to, from net.Conn) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.(interface{ CloseWrite() error }).CloseWrite()
}

// hangUp resets a connection, which its peer sees.
func hangUp(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0)
	}
	c.Close()
}

// proxyLinger is the time that the peer of a connection over RDMA has to take the last
// data, in seconds. The connection keeps its place until then, and the proxy does not end.
const proxyLinger = 3

// closeAfter closes a connection once its peer has the written data.
func closeAfter(c net.Conn) {
	if r, ok := c.(*rsock.Conn); ok && r.Transport().RDMA() {
		_ = r.SetLinger(proxyLinger)
	}
	c.Close()
}

// transportOf is the transport of a connection.
func transportOf(c net.Conn) string {
	if r, ok := c.(*rsock.Conn); ok {
		return r.Transport().String()
	}
	return c.LocalAddr().Network()
}
