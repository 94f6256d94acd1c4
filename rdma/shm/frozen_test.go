//go:build linux

package shm

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// freeze stops a side in the middle of a direct write of 100 zeros. thaw continues the
// write and waits for it.
func (s *side) freeze(region rdma.MemoryRegion) (thaw func()) {
	frozen, on, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	at := region.RemoteAddr()
	go func() {
		defer close(done)
		_, _ = s.inside().mappings.access(at.Addr, uint32(at.Token), 100, ring.SlotWrite, func(dst []byte) error {
			close(frozen)
			<-on
			clear(dst)
			return nil
		})
	}()
	<-frozen
	return func() {
		close(on)
		<-done
	}
}

// Pages that another region shares are not replaced, because concurrent writes there
// would be lost. Close fails until the peer has stopped. Source: [OP-113], [ND
// MemoryRegion.Deregister]
func TestCloseFailsOnSharedPages(t *testing.T) {
	active, passive := connected(t, &Config{DrainTimeout: 20 * time.Millisecond}, 1<<16)
	mem := must[rdma.Memory](t)(passive.a.Alloc(t.Context(), 1<<14)).Bytes()
	region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), mem[:5000], readable))
	beside := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), mem[5000:], readable))
	active.introduce(t, region)
	before := &mem[0]
	thaw := active.freeze(region)
	for range 2 {
		if err := region.Close(); !errors.Is(err, rdma.StatusDeviceBusy) || !errors.Is(err, errShared) {
			t.Errorf("close on shared pages: %v", err)
		}
	}
	copy(beside.Bytes(), "written meanwhile")
	thaw()
	if err := errors.Join(region.Close(), region.Close()); err != nil {
		t.Errorf("close after the peer stopped: %v", err)
	}
	if before != &mem[0] || !bytes.HasPrefix(beside.Bytes(), []byte("written meanwhile")) {
		t.Error("the write beside the region is lost")
	}
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
}

// If no other pages can be allocated, Close does not report that the region is closed.
// Source: [OP-113], [ND MemoryRegion.Deregister]
func TestCloseFailsWithoutNewPages(t *testing.T) {
	active, passive := connected(t, &Config{DrainTimeout: 20 * time.Millisecond}, 1<<16)
	mem, region := passive.alloc(t, 1<<14)
	active.introduce(t, region)
	thaw := active.freeze(region)
	fill(mem)
	want := bytes.Clone(mem)
	err := withoutDescriptors(t, region.Close)
	if !errors.Is(err, rdma.StatusDeviceBusy) || !errors.Is(err, errStays) {
		t.Errorf("close without other pages: %v", err)
	}
	if err := region.Close(); err != nil {
		t.Errorf("close with other pages: %v", err)
	}
	thaw()
	if !bytes.Equal(mem, want) {
		t.Error("the memory changed after Close")
	}
}

// withoutDescriptors calls f while the process cannot open descriptors.
func withoutDescriptors(t *testing.T, f func() error) error {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := old
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	return f()
}
