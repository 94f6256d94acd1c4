package leakcheck

import (
	"strings"
	"syscall"
	"testing"
)

func TestLeftMappingIsReported(t *testing.T) {
	s := impatient()
	mem, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "mapping") {
		t.Errorf("a shared mapping gives %v", err)
	}
}
