package main

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
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
	memory := shm.Config{AllowUID: a.allowUID.allows}
	network := iwarp.Config{CRC: crcPolicy(a.noCRC)}
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

// uids is the value of a flag: the users to share memory with, in addition to this user and
// root. The kernel reports the user of a peer.
type uids struct {
	any  bool
	list []uint32
}

// allows reports whether a process of that user may be a peer. By default only root and
// this user may.
func (u *uids) allows(uid uint32) bool {
	return u.any || uid == 0 || uid == uint32(os.Geteuid()) || slices.Contains(u.list, uid)
}

// Set takes the text of the command line.
func (u *uids) Set(text string) error {
	*u = uids{any: text == "any"}
	if u.any || text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return err
		}
		u.list = append(u.list, uint32(n))
	}
	return nil
}

// String is the value as on the command line.
func (u *uids) String() string {
	if u.any {
		return "any"
	}
	var words []string
	for _, n := range u.list {
		words = append(words, strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(words, ",")
}

// Type is the name of the value in the help.
func (u *uids) Type() string { return "uids" }

// pickProviders turns a list of names into providers.
func pickProviders(names string, all []rdma.Provider) ([]rdma.Provider, error) {
	if names == "none" || names == "" {
		return nil, nil
	}
	var picked []rdma.Provider
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(all, func(p rdma.Provider) bool { return p.Name() == name })
		if i < 0 {
			return nil, usagef("there is no provider %q; there are: %s", name, providerNames(all))
		}
		if slices.Contains(picked, all[i]) {
			return nil, usagef("--provider %s: %s is named twice", names, name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// providerNames lists providers as the command line does.
func providerNames(providers []rdma.Provider) string {
	var names []string
	for _, p := range providers {
		names = append(names, p.Name())
	}
	return strings.Join(names, ",")
}
