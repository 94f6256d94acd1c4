package paths_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"lwio/internal/client/base"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// renamed is a provider under a name that no server has.
type renamed struct{ rdma.Provider }

func (renamed) Name() string { return "other" }

// errBroken is the error of a broken provider.
var errBroken = errors.New("no adapter today")

// broken is a provider without adapters.
type broken struct{ rdma.Provider }

func (broken) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) { return nil, errBroken }

// The first provider of the server that works is used, and the client's transport names the
// preferred providers that are not, with the reasons.
//
// Source: [LWIO §Discovery], [OP-40]
func TestBeginUsesFirstProviderThatWorks(t *testing.T) {
	s := lwiotest.NewServer(t, nil) // offers shm before iwarp
	other := renamed{iwarp.New(nil)}
	for name, c := range map[string]struct {
		providers []rdma.Provider
		used      string
		skipped   map[string]error
	}{
		"the server's order":   {[]rdma.Provider{iwarp.New(nil), shm.New(nil)}, "shm", map[string]error{"iwarp": nil}},
		"the same order":       {[]rdma.Provider{shm.New(nil), iwarp.New(nil)}, "shm", nil},
		"one in common":        {[]rdma.Provider{other, iwarp.New(nil)}, "iwarp", map[string]error{"other": base.ErrNotOffered}},
		"the first is broken":  {[]rdma.Provider{broken{shm.New(nil)}, iwarp.New(nil)}, "iwarp", map[string]error{"shm": errBroken}},
		"a broken alternative": {[]rdma.Provider{shm.New(nil), broken{iwarp.New(nil)}}, "shm", nil},
	} {
		tr := mustBegin(t, s, base.Config{Providers: c.providers}).Transport()
		if tr.Name != c.used || tr.Connections != 1 || len(tr.Skipped) != len(c.skipped) {
			t.Errorf("%s: %+v", name, tr)
		}
		for _, skipped := range tr.Skipped {
			want, known := c.skipped[skipped.Provider]
			if !known || skipped.Reason == nil || want != nil && !errors.Is(skipped.Reason, want) {
				t.Errorf("%s: %+v", name, skipped)
			}
		}
	}
}

// Without a provider that works the client has no connection, and the reason names each attempt;
// where RDMA is required, Begin fails.
//
// Source: [LWIO §Discovery], [OP-40]
func TestBeginWithoutProviderGivesReasons(t *testing.T) {
	s := lwiotest.NewServer(t, nil) // offers shm before iwarp
	for name, c := range map[string]struct {
		providers []rdma.Provider
		err       error
		reasons   []string
	}{
		"none in common": {[]rdma.Provider{renamed{iwarp.New(nil)}}, base.ErrNotOffered, []string{"no RDMA provider in common"}},
		"both broken":    {[]rdma.Provider{broken{iwarp.New(nil)}, broken{shm.New(nil)}}, errBroken, []string{"shm: ", "iwarp: "}},
	} {
		_, err := begin(t, s, base.Config{Providers: c.providers, RequireRDMA: true})
		if !errors.Is(err, base.ErrNoRDMA) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		tr := mustBegin(t, s, base.Config{Providers: c.providers, ReconnectTimeout: -1}).Transport()
		if tr.RDMA() || tr.Name != base.TransportSMB {
			t.Errorf("%s: %+v", name, tr)
		}
		for _, reason := range c.reasons {
			if !strings.Contains(tr.Reason, reason) {
				t.Errorf("%s: %q has not %q", name, tr.Reason, reason)
			}
		}
	}
	set := mustBegin(t, s, base.Config{SMBOnly: true})
	if tr := set.Transport(); tr.RDMA() || tr.Reason != "asked for" || set.Live() != nil {
		t.Errorf("SMB only: %+v", tr)
	}
}

// With AllProviders the connections of a client begin with one provider each.
func TestAllProvidersSpreadsConnections(t *testing.T) {
	s := lwiotest.NewServer(t, nil) // offers shm before iwarp
	c := mustBegin(t, s, base.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}, Connections: 3, AllProviders: true})
	var names []string
	for _, r := range c.Paths {
		names = append(names, r.Live().Transport().Name)
	}
	if want := []string{"shm", "iwarp", "shm"}; !slices.Equal(names, want) {
		t.Errorf("%q instead of %q", names, want)
	}
	if tr := c.Transport(); tr.Connections != 3 || !c.AllUp() {
		t.Errorf("%+v", tr)
	}
}
