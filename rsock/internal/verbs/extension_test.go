package verbs

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// withoutRead is a provider whose adapters lack RDMA Read.
type withoutRead struct{ rdma.Provider }

func (p withoutRead) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return adapterWithoutRead{a}, nil
}

type adapterWithoutRead struct{ rdma.Adapter }

func (a adapterWithoutRead) Info() rdma.AdapterInfo {
	info := a.Adapter.Info()
	info.Caps &^= rdma.CapRead
	return info
}

// TestExtensionLookup finds every required function by its GUID. For an optional function
// that the provider lacks, both the look-up and the call return an error.
//
// Source: [WSD §2.2], [WSD §2.4 SIO_GET_EXTENSION_FUNCTION_POINTER], [WSD §6.1]
func TestExtensionLookup(t *testing.T) {
	full := service(t, iwarp.New(nil), nil)
	least := service(t, withoutRead{iwarp.New(nil)}, nil)
	for _, c := range []struct {
		id          GUID
		full, least bool // whether the services have it
	}{
		{"C0B422F5-F58C-11D1-AD6C-00C04FA34A2D", true, true},
		{"C0B422F6-F58C-11D1-AD6C-00C04FA34A2D", true, true},
		{"C0B422F7-F58C-11D1-AD6C-00C04FA34A2D", true, true},
		{"C0B422F8-F58C-11D1-AD6C-00C04FA34A2D", true, true},
		{"C0B422F9-F58C-11D1-AD6C-00C04FA34A2D", true, true},
		{"C0B422FA-F58C-11D1-AD6C-00C04FA34A2D", true, false},
		{"E5DA4AF8-D824-48CD-A799-6337A98ED2AF", false, false},
	} {
		for v, want := range map[*Service]bool{full: c.full, least: c.least} {
			f, err := v.Extension(c.id)
			if (f != nil) != want || (err == nil) != want {
				t.Errorf("%s: %v, error %v", c.id, f, err)
			}
			if want {
				continue
			}
			fails(t, string(c.id), err, EOPNOTSUPP)
			if !errors.Is(err, syscall.EOPNOTSUPP) || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v is not the error of the system", c.id, err)
			}
		}
	}
	_, err := full.Extension("C0B422FB-F58C-11D1-AD6C-00C04FA34A2D")
	fails(t, "unknown function", err, EINVAL)
	s, err := least.Socket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var o Overlapped
	fails(t, "read", s.RdmaRead(&o, nil, nil, 0, 0), EOPNOTSUPP)
}
