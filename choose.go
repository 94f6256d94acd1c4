package lwio

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"lwio/internal/wire"
	"lwio/rdma"
)

// errNotBest is why a provider is not used that might have worked.
var errNotBest = errors.New("the server prefers another")

// connect negotiates, and takes the first common provider and address that works,
// in the server's order. What became of the others stands in the transport and the
// log. [OP-40]
func (c *Client) connect(ctx context.Context, server netip.Addr) error {
	assoc, err := negotiate(ctx, c.sess, c.cfg.Providers)
	if err != nil {
		return err
	}
	c.keys = assoc
	failed := make(map[string]error)
	var tried []error
	for _, o := range assoc.offers {
		p := c.cfg.Providers[slices.IndexFunc(c.cfg.Providers, func(p rdma.Provider) bool { return p.Name() == o.provider })]
		err := c.connectBy(ctx, p, o.instances, server)
		if err == nil {
			c.skip(o.provider, failed)
			return nil
		}
		failed[o.provider] = err
		tried = append(tried, fmt.Errorf("%s: %w", o.provider, err))
		if ctx.Err() != nil {
			return errors.Join(tried...)
		}
	}
	if len(tried) == 0 {
		return fmt.Errorf("no RDMA provider in common with the server: %w", ErrNotOffered)
	}
	return joined(tried)
}

// connectBy connects to the first of a server's addresses that works. It fails with
// ErrOtherHost if nothing but that stands against it.
func (c *Client) connectBy(ctx context.Context, p rdma.Provider, instances []wire.NetAddress, server netip.Addr) error {
	var tried []error
	for _, inst := range instances {
		remote, err := remoteAddr(p.Name(), inst, server)
		if err == nil {
			err = c.connectTo(ctx, p, remote)
		}
		if err == nil {
			return nil
		}
		if remote.Name == "" || rdma.StatusOf(err) != rdma.StatusHostUnreachable {
			tried = append(tried, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case len(instances) == 0:
		return errors.New("the server names no address")
	case len(tried) == 0:
		return ErrOtherHost
	}
	return joined(tried)
}

// skip notes why the providers that this side would rather have are not used. One
// that should have worked is worth a warning.
func (c *Client) skip(used string, failed map[string]error) {
	preferred := true
	for _, p := range c.cfg.Providers {
		name := p.Name()
		preferred = preferred && name != used
		err := failed[name]
		switch {
		case err != nil:
		case !preferred:
			continue
		case slices.ContainsFunc(c.keys.offers, func(o offer) bool { return o.provider == name }):
			err = errNotBest
		default:
			err = ErrNotOffered
		}
		c.transport.Skipped = append(c.transport.Skipped, name+": "+err.Error())
		log := c.cfg.Logger.Info
		if failed[name] != nil && !errors.Is(err, ErrOtherHost) {
			log = c.cfg.Logger.Warn
		}
		log("lwio: provider not used", "server", c.target.Host, "provider", name, "instead", used, "reason", err)
	}
}

// joined is one line for several causes.
func joined(errs []error) error {
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}
