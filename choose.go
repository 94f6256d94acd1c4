package lwio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lwio/internal/handshake"
	"lwio/internal/wire"
	"lwio/rdma"
)

// errNotBest is why a provider is not used that might have worked.
var errNotBest = errors.New("the server prefers another")

// connect makes a connection of the rail r, by the first common provider and address
// that works, in the server's order; the rails of a client begin with one address, or one
// provider, each. What became of the others stands in the transport and the log. [OP-40]
func (c *Client) connect(ctx context.Context, r *rail, assoc *handshake.Association) (*conn, error) {
	failed := make(map[string]error)
	var tried []error
	offers := assoc.Offers
	if c.cfg.AllProviders {
		offers = rotated(offers, r.index)
	}
	for _, o := range offers {
		p := c.cfg.Providers[slices.IndexFunc(c.cfg.Providers, func(p rdma.Provider) bool { return p.Name() == o.Provider })]
		cn, err := c.connectBy(ctx, r, assoc, p, o.Instances)
		if err == nil {
			cn.skipped = c.skip(assoc, o.Provider, failed)
			return cn, nil
		}
		failed[o.Provider] = err
		tried = append(tried, byProvider(o.Provider, err))
		if ctx.Err() != nil {
			return nil, errors.Join(tried...)
		}
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("no RDMA provider in common with the server: %w", ErrNotOffered)
	}
	return nil, joined(tried)
}

// byProvider names the provider in an error that does not begin with its name.
func byProvider(name string, err error) error {
	if strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// connectBy connects to the first of a server's addresses that works. It fails with
// ErrOtherHost if nothing but that stands against it.
func (c *Client) connectBy(ctx context.Context, r *rail, assoc *handshake.Association, p rdma.Provider, instances []wire.NetAddress) (*conn, error) {
	var tried []error
	at := r.index
	if c.cfg.AllProviders {
		at /= max(len(assoc.Offers), 1)
	}
	for _, inst := range rotated(instances, at) {
		remote, err := handshake.RemoteAddr(p.Name(), inst, c.server)
		if err == nil {
			var cn *conn
			if cn, err = c.connectTo(ctx, r, assoc, p, remote); err == nil {
				return cn, nil
			}
		}
		if remote.Name == "" || rdma.StatusOf(err) != rdma.StatusHostUnreachable {
			tried = append(tried, handshakeError(err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case len(instances) == 0:
		return nil, errors.New("the server names no address")
	case len(tried) == 0:
		return nil, ErrOtherHost
	}
	return nil, joined(tried)
}

// skip says why the providers that this side would rather have are not used. One
// that should have worked is worth a warning.
func (c *Client) skip(assoc *handshake.Association, used string, failed map[string]error) (skipped []string) {
	preferred := true
	for _, p := range c.cfg.Providers {
		name := p.Name()
		preferred = preferred && name != used
		err := failed[name]
		switch {
		case err != nil:
		case !preferred:
			continue
		case c.cfg.AllProviders:
			continue // another connection uses it
		case slices.ContainsFunc(assoc.Offers, func(o handshake.Offer) bool { return o.Provider == name }):
			err = errNotBest
		default:
			err = ErrNotOffered
		}
		skipped = append(skipped, byProvider(name, err).Error())
		log := c.cfg.Logger.Info
		if failed[name] != nil && !errors.Is(err, ErrOtherHost) {
			log = c.cfg.Logger.Warn
		}
		log("lwio: provider not used", "server", c.target.Host, "provider", name, "instead", used, "reason", err)
	}
	return skipped
}

// rotated is a list that begins with element n, counted round and round.
func rotated[T any](list []T, n int) []T {
	if len(list) == 0 {
		return nil
	}
	n %= len(list)
	return slices.Concat(list[n:], list[:n])
}

// joined is one line for several causes.
func joined(errs []error) error {
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}
