package lwio_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/shm"
)

// Over shared memory the data of a write from a Buffer stays there, and goes to the file
// whole, also if it takes several requests.
//
// Source: [LWIO §Write], [OP-61]
func TestWritesGoByReference(t *testing.T) {
	p := shm.New(nil)
	s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{p}})
	c := s.Client(&lwio.Config{Providers: []rdma.Provider{p}, RequireRDMA: true})
	f, err := c.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 5<<19 + 77
	b, err := c.Alloc(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for round := byte(1); round < 100; round++ {
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i>>8) ^ byte(i) ^ round
		}
		if n, err := f.WriteAt(b.Bytes(), 3); n != size || err != nil {
			t.Fatal(n, err)
		}
		if got := s.Server.Stats().ByReferenceWrites; round > 1 && got >= 3 {
			break // all of the last write
		}
	}
	if got := s.Server.Stats().ByReferenceWrites; got < 3 {
		t.Fatalf("%d writes went by reference", got)
	}
	for _, write := range []struct{ size, byReference int }{{1024, 0}, {1025, 1}, {4096, 1}} {
		before := s.Server.Stats().ByReferenceWrites
		if _, err := f.WriteAt(b.Bytes()[:write.size], 3); err != nil {
			t.Fatal(err)
		}
		if n := s.Server.Stats().ByReferenceWrites - before; n != uint64(write.byReference) {
			t.Errorf("%d writes of %d bytes went by reference, want %d", n, write.size, write.byReference)
		}
	}
	if got, err := os.ReadFile(filepath.Join(s.Dir, "f")); err != nil || !bytes.Equal(got[3:], b.Bytes()) {
		t.Errorf("the file has other bytes: %v", err)
	}
}
