package verbs

import (
	"errors"
	"syscall"
	"testing"

	"lwio/rdma/iwarp"
)

// Optional functions that the provider lacks are reported as such, by the look-up and
// by the call.
//
// Source: [WSD §2.2], [WSD §2.4 SIO_GET_EXTENSION_FUNCTION_POINTER]
func TestExtensions(t *testing.T) {
	all := []GUID{WSPRegisterMemory, WSPDeregisterMemory, WSPRegisterRdmaMemory, WSPDeregisterRdmaMemory, WSPRdmaWrite,
		WSPRdmaRead, WSPMemoryRegistrationCacheCallback}
	full := service(t, iwarp.New(nil), &Config{CacheEntries: 1})
	least := service(t, iwarp.New(nil), &Config{NoRead: true})
	for i, id := range all {
		if f, err := full.Extension(id); f == nil || err != nil {
			t.Errorf("%s: %v", id, err)
		}
		f, err := least.Extension(id)
		if i < 5 {
			if f == nil || err != nil {
				t.Errorf("%s of the least provider: %v", id, err)
			}
			continue
		}
		fails(t, string(id), err, EOPNOTSUPP)
		if !errors.Is(err, syscall.EOPNOTSUPP) || !errors.Is(err, errors.ErrUnsupported) || f != nil {
			t.Errorf("%s: %v is not the system's error", id, err)
		}
	}
	_, err := full.Extension("C0B422FB-F58C-11D1-AD6C-00C04FA34A2D")
	fails(t, "unknown function", err, EINVAL)
	fails(t, "callback", least.MemoryRegistrationCacheCallback(&all), EOPNOTSUPP)
	s, err := least.Socket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var o Overlapped
	fails(t, "read", s.RdmaRead(&o, nil, nil, 0, 0), EOPNOTSUPP)
}
