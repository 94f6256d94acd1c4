package survive

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"

	"lwio"
	"lwio/integration/internal/sandbox"
	"lwio/integration/internal/supervise"
	"lwio/internal/test/skip"
)

// TestExpiredTranslationFailsNoCall has clients behind a translator of addresses, which forgets their connections
// while they are idle. Neither side gets a sign of it. The next calls see a pause, and no error, and locks stay.
//
// Source: [OP-42], [OP-112]
func TestExpiredTranslationFailsNoCall(t *testing.T) {
	router, s := routedServer(t)
	all := map[string]*visitor{}
	for _, transport := range []string{"iwarp", lwio.TransportSMB} {
		v := visit(t, s, transport, "routed-"+transport)
		if err := v.f.TryLock(t.Context(), lockedRange, lwio.LockExclusive); err != nil {
			t.Fatal(err)
		}
		all[transport] = v
	}
	if err := router.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for transport, v := range all {
		calls.Go(func() {
			err := errors.Join(v.f.Sync(t.Context()), v.uses(2), v.f.Unlock(t.Context(), lockedRange))
			if st := v.c.Stats(); st.SMBReconnects == 0 || transport != lwio.TransportSMB && st.Reconnects == 0 {
				err = errors.Join(err, fmt.Errorf("a connection was not lost: %+v", st))
			}
			if err != nil {
				t.Errorf("%s: %v", transport, err)
			}
		})
	}
	calls.Wait()
}

// routedServer starts a server behind a translator of addresses.
func routedServer(t *testing.T) (*sandbox.Router, *supervise.Server) {
	t.Helper()
	if !sandbox.Inside() {
		skip.Test(t, "no right to make namespaces")
	}
	router, err := sandbox.NewRouter()
	if errors.Is(err, errors.ErrUnsupported) {
		skip.Test(t, "the kernel does not translate addresses", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := supervise.New(supervise.Config{
		Binary: lwioBin, Dir: t.TempDir(), Prefix: router.Prefix(), Log: testLog{t},
		Listen: net.JoinHostPort(sandbox.Beyond, strconv.Itoa(smbPort)),
		Flags:  []string{"--insecure-network", "--provider", "iwarp", "--rdma-listen", net.JoinHostPort(sandbox.Beyond, strconv.Itoa(rdmaPort))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return router, s
}
