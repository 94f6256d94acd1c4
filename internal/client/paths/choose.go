package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
	"lwio/rdma"
)

// errNotBest is the reason for a provider that was not tried.
var errNotBest = errors.New("the server prefers another")

// connect makes a connection of the path r, by the first common provider and address
// that works, in the server's order; the paths of a client begin with one address, or one
// provider, each. The reasons stand in the transport and the log. [OP-40]
func (c *Set) connect(ctx context.Context, r *Path, assoc *handshake.Association) (*rdmaconn.Conn, error) {
	failed := make(map[string]error)
	var tried []error
	offers := assoc.Offers
	if c.Cfg.AllProviders {
		offers = rotated(offers, r.Index)
	}
	for _, o := range offers {
		p := c.Cfg.Providers[slices.IndexFunc(c.Cfg.Providers, func(p rdma.Provider) bool { return p.Name() == o.Provider })]
		cn, err := c.connectBy(ctx, r, assoc, p, o.Instances)
		if err == nil {
			cn.Skipped = c.skip(assoc, o.Provider, failed)
			return cn, nil
		}
		failed[o.Provider] = err
		tried = append(tried, byProvider(o.Provider, err))
		if ctx.Err() != nil {
			return nil, errors.Join(tried...)
		}
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("no RDMA provider in common with the server: %w", base.ErrNotOffered)
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
func (c *Set) connectBy(ctx context.Context, r *Path, assoc *handshake.Association, p rdma.Provider, instances []wire.NetAddress) (*rdmaconn.Conn, error) {
	var tried []error
	at := r.Index
	if c.Cfg.AllProviders {
		at /= max(len(assoc.Offers), 1)
	}
	for _, inst := range rotated(instances, at) {
		remote, err := handshake.RemoteAddr(p.Name(), inst, c.Smb.State().Server)
		if err == nil {
			var cn *rdmaconn.Conn
			if cn, err = c.connectTo(ctx, r, assoc, p, remote); err == nil {
				return cn, nil
			}
		}
		if remote.Name == "" || rdma.StatusOf(err) != rdma.StatusHostUnreachable {
			tried = append(tried, rdmaconn.HandshakeError(err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case len(instances) == 0:
		return nil, errors.New("the server names no address")
	case len(tried) == 0:
		return nil, base.ErrOtherHost
	}
	return nil, joined(tried)
}

// skip returns and logs why providers are not used: providers that failed, and providers before the
// used provider in Config.Providers. A provider that should have worked causes a warning.
func (c *Set) skip(assoc *handshake.Association, used string, failed map[string]error) (skipped []base.Skipped) {
	preferred := true
	for _, p := range c.Cfg.Providers {
		name := p.Name()
		preferred = preferred && name != used
		err := failed[name]
		switch {
		case err != nil:
		case !preferred:
			continue
		case c.Cfg.AllProviders:
			continue // another connection uses it
		case slices.ContainsFunc(assoc.Offers, func(o handshake.Offer) bool { return o.Provider == name }):
			err = errNotBest
		default:
			err = base.ErrNotOffered
		}
		skipped = append(skipped, base.Skipped{Provider: name, Reason: err})
		log := c.Cfg.Logger.Info
		if failed[name] != nil && !errors.Is(err, base.ErrOtherHost) {
			log = c.Cfg.Logger.Warn
		}
		log("lwio: provider not used", "server", c.Target, "provider", name, "instead", used, "reason", err)
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

// joined returns one error for several causes, on one line.
func joined(errs []error) error {
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}
