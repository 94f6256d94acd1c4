package survive

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/supervise"
)

// patience bounds the time in which a server frees the resources of clients that are gone.
const patience = 90 * time.Second

// lazyDescriptors is the number of descriptors that a server opens at its first connections and keeps.
const lazyDescriptors = 4

// holding is the most that the clients of a server hold: sessions, RDMA connections, opens, registrations of opens for RDMA,
// locks, and records of the state.
type holding struct{ sessions, rdma, opens, files, locks, records int }

// excess describes the part of a server's resources that is beyond a holding; "" is nothing. No session and no open waits for its client.
func (h holding) excess(m supervise.Metrics) string {
	most := map[string]int{
		`lwio_connections{kind="smb"}`: h.sessions, `lwio_sessions`: h.sessions, `lwio_suspended_sessions`: 0,
		`lwio_connections{kind="rdma"}`: h.rdma, `lwio_connections{kind="rdma_unauthenticated"}`: 0, `lwio_connections{kind="rdma_displaced"}`: 0,
		`lwio_charged{resource="open_files"}`: h.opens, `lwio_charged{resource="orphaned_opens"}`: 0,
		`lwio_charged{resource="registrations"}`: h.files, `lwio_files`: h.files,
		`lwio_charged{resource="locks"}`: h.locks, `lwio_waiting_locks`: 0, `lwio_state_records`: h.records,
	}
	if h == (holding{}) {
		for name := range m {
			if strings.HasPrefix(name, "lwio_charged{") {
				most[name] = 0
			}
		}
	}
	var list []string
	for name, n := range most {
		if got, ok := m[name]; !ok || got > float64(n) {
			list = append(list, fmt.Sprintf("%s is %v, more than %d", name, got, n))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// expectHeld waits until a server holds no more than its clients.
func expectHeld(t *testing.T, s *supervise.Server, h holding) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		m, err := s.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		excess := h.excess(m)
		if excess == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server has more than its clients: ", excess)
		}
	}
}

// expectNothingLeft waits until a server without clients holds nothing for them, has no file of its directory open, and no more
// connections than one that has just begun.
func expectNothingLeft(t *testing.T, s *supervise.Server) {
	t.Helper()
	expectHeld(t, s, holding{})
	fresh := serve(t, t.TempDir(), stateFlags(t, s.HasFlag("--state"))...)
	want, err := fresh.Descriptors()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := s.Descriptors()
		if err != nil {
			t.Fatal(err)
		}
		files := slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, s.Dir()+"/") })
		if !files && len(got) <= len(want)+lazyDescriptors {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server has %d descriptors, a new one %d: %v", len(got), len(want), got)
		}
	}
}

// recordsOfOpen bounds the records of an open: the open, its locks, and the sequences of its requests.
const recordsOfOpen = 4

// add adds a client with a number of opens and locks.
func (h *holding) add(transport string, opens, locks int) {
	h.sessions++
	h.opens += opens
	h.locks += locks
	h.records += opens * recordsOfOpen
	if transport != lwio.TransportSMB {
		h.rdma++
		h.files += opens
	}
}

// holds is the most that the workers hold together. They have two opens each, and lock one.
func (t *team) holds(state bool) (h holding) {
	for _, w := range t.members {
		h.add(w.transport, 2, 1)
	}
	if !state {
		h.records = 0
	}
	return h
}

// holds adds the most that the errands hold together: the shared file, a file of its own, a file that is renamed or removed, and
// over RDMA the root of the share, for descriptions by name. No record is kept of a directory.
func (a *errands) holds(h holding) holding {
	for _, e := range a.list {
		h.add(e.transport, 3, 2)
		if e.transport != lwio.TransportSMB {
			h.opens++
			h.files++
		}
	}
	return h
}
