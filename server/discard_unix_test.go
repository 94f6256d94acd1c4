//go:build unix

package server

import (
	"bytes"
	"testing"

	"lwio/rdma"
)

// A retired receive gives its pages back to the system if the provider allows it.
//
// Source: [OP-61c]
func TestRetiredReceiveGivesPagesBack(t *testing.T) {
	const size = 64 << 10
	for _, caps := range []rdma.Caps{0, rdma.CapPageable} {
		buf, err := mapPages(2 * size)
		if err != nil {
			t.Fatal(err)
		}
		copy(buf, bytes.Repeat([]byte{1}, len(buf)))
		b := newReceiveBuffers(&fabric{info: rdma.AdapterInfo{Caps: caps}, layout: layout{dataSize: size}})
		b.mem = buf
		b.retire(1)
		if buf[size-1] != 1 {
			t.Error("another entry's memory is gone")
		}
		if gone := buf[size] == 0; gone != (caps != 0) {
			t.Errorf("capabilities %x: gone %v", caps, gone)
		}
		if err := unmapPages(buf); err != nil {
			t.Error(err)
		}
	}
}

// The software providers allow to give pages back.
func TestProvidersArePageable(t *testing.T) { onEach(t, testProvidersArePageable) }

func testProvidersArePageable(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	if caps := v.e.fabrics[0].info.Caps; !caps.Has(rdma.CapPageable) {
		t.Errorf("capabilities %x", caps)
	}
}
