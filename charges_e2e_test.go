package lwio_test

import (
	"os"
	"slices"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/server"
)

// Sums has a sum for each resource that a client holds, within the limits. All is returned when the
// client is closed.
func TestSumsCountTheResourcesOfAClient(t *testing.T) {
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
	for _, sum := range s.Server.Sums() {
		if sum.Held < sum.Most || sum.Held > sum.Limit || sum.Most > sum.UserLimit || sum.UserLimit >= sum.Limit {
			t.Errorf("%+v", sum)
		}
		if (sum.Most > 0) != (sum.Held > 0) || slices.Contains(want, sum.Resource) && sum.Held == 0 {
			t.Errorf("%+v while a client has a file and a lock", sum)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	eventually(t, func() bool {
		return !slices.ContainsFunc(s.Server.Sums(), func(sum server.Sum) bool { return sum.Held != 0 })
	})
}
