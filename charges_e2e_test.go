package lwio_test

import (
	"os"
	"slices"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/server"
)

// Resources has each resource that a client holds, within the limits. All is returned when the client
// is closed.
func TestResourcesAreCountedForAClient(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c := s.Client(&lwio.Config{RequireRDMA: true})
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("data"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Lock(t.Context(), lwio.Range{Len: 1}, lwio.LockExclusive); err != nil {
		t.Fatal(err)
	}
	want := []string{"smb_connections", "rdma_connections", "rdma_write_memory_bytes", "registrations", "open_files", "locks"}
	for _, r := range s.Server.Resources() {
		if r.Held < r.UserHeld || r.Held > r.Limit || r.UserHeld > r.UserLimit || r.UserLimit >= r.Limit {
			t.Errorf("%+v", r)
		}
		if (r.UserHeld > 0) != (r.Held > 0) || slices.Contains(want, r.Name) && r.Held == 0 {
			t.Errorf("%+v while a client has a file and a lock", r)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	eventually(t, func() bool {
		return !slices.ContainsFunc(s.Server.Resources(), func(r server.Resource) bool { return r.Held != 0 })
	})
}
