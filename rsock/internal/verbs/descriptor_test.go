package verbs

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"lwio/rdma"
)

var golden = descriptor{access: MemReadWrite, at: rdma.RemoteAddr{Addr: 0x1122334455667788, Token: 0xa1b2c3d4}, length: 0x0102030405}

const goldenBytes = "01030000" + "d4c3b2a1" + "8877665544332211" + "0504030201000000"

// Source: [WSD §2.3 WSPRegisterRdmaMemory]
func TestDescriptorLayout(t *testing.T) {
	b := golden.appendTo(nil)
	if hex.EncodeToString(b) != goldenBytes || len(b) != DescriptorSize || DescriptorSize > MaxDescriptorSize {
		t.Errorf("bytes %x", b)
	}
	if got, ok := decodeDescriptor(b); !ok || got != golden {
		t.Errorf("decoded %+v, %v", got, ok)
	}
	for n := range b {
		if _, ok := decodeDescriptor(b[:n]); ok {
			t.Errorf("%d bytes are a descriptor", n)
		}
	}
	for what, change := range map[string]func([]byte) []byte{
		"longer":        func(b []byte) []byte { return append(b, 0) },
		"other version": func(b []byte) []byte { b[0] = 2; return b },
		"no rights":     func(b []byte) []byte { b[1] = 0; return b },
		"other rights":  func(b []byte) []byte { b[1] = 4; return b },
		"reserved":      func(b []byte) []byte { b[2] = 1; return b },
		"reserved too":  func(b []byte) []byte { b[3] = 1; return b },
		"wraps":         func(b []byte) []byte { copy(b[16:], "\xff\xff\xff\xff\xff\xff\xff\xff"); return b },
	} {
		if _, ok := decodeDescriptor(change(bytes.Clone(b))); ok {
			t.Errorf("%s: is a descriptor", what)
		}
	}
}

func TestDescriptorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Uint64().Draw(t, "address")
		d := descriptor{
			access: Access(rapid.IntRange(1, 3).Draw(t, "access")),
			at:     rdma.RemoteAddr{Addr: at, Token: rdma.RemoteToken(rapid.Uint32().Draw(t, "token"))},
			length: rapid.Uint64Max(^at).Draw(t, "length"),
		}
		if got, ok := decodeDescriptor(d.appendTo(nil)); !ok || got != d {
			t.Fatalf("%+v comes back as %+v, %v", d, got, ok)
		}
	})
}

// FuzzDescriptor decodes random bytes: a valid descriptor encodes to the same bytes, and
// its memory does not wrap around.
func FuzzDescriptor(f *testing.F) {
	f.Add(golden.appendTo(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, DescriptorSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, ok := decodeDescriptor(b)
		if !ok {
			return
		}
		if again := d.appendTo(nil); !bytes.Equal(again, b) || !d.access.valid() || d.at.Addr+d.length < d.at.Addr {
			t.Errorf("%x is taken for %+v", b, d)
		}
	})
}
