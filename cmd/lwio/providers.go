package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"lwio"
	"lwio/cmd/lwio/internal/sockets"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// providers are the providers of the library, with the flags of this run.
func (a *app) providers() []rdma.Provider { return a.providersOn(nil) }

// providersOn are the providers with listening sockets of a set; nil for none.
func (a *app) providersOn(set *sockets.Set) []rdma.Provider {
	memory := shm.Config{AllowUID: a.settings.AllowUID.Allows}
	network := iwarp.Config{CRC: crcPolicy(a.settings.NoCRC)}
	if set != nil {
		memory.Listen = func(bind func() (*net.UnixListener, error)) (*net.UnixListener, error) {
			return set.Unix(shm.Name, bind)
		}
		network.Listen = func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
			return set.TCP(ctx, iwarp.Name, local.String())
		}
	}
	all := lwio.DefaultProviders()
	for i, p := range all {
		switch p.Name() {
		case shm.Name:
			all[i] = shm.New(&memory)
		case iwarp.Name:
			all[i] = iwarp.New(&network)
		}
	}
	return all
}

// crcPolicy returns this side's policy for iWARP's CRCs.
func crcPolicy(off bool) iwarp.CRCPolicy {
	if off {
		return iwarp.CRCOff
	}
	return iwarp.CRCOn
}

// pickProviders returns the providers of the names.
func pickProviders(names []string, all []rdma.Provider) ([]rdma.Provider, error) {
	var picked []rdma.Provider
	for _, name := range names {
		i := slices.IndexFunc(all, func(p rdma.Provider) bool { return p.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no provider %q; there are: %s", name, strings.Join(providerNames(all), ","))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// providerNames returns the names of providers.
func providerNames(providers []rdma.Provider) (names []string) {
	for _, p := range providers {
		names = append(names, p.Name())
	}
	return names
}
