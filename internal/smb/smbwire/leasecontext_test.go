package smbwire

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The length of a lease context is its version; no other length is a lease.
//
// Source: [MS-SMB2 2.2.13.2.8], [MS-SMB2 2.2.13.2.10], [MS-SMB2 2.2.14.2.10], [MS-SMB2 2.2.14.2.11]
func TestLeaseContextGolden(t *testing.T) {
	parent := [16]byte{0xB0, 0xB1, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xBB, 0xBC, 0xBD, 0xBE, 0xBF}
	for _, g := range []struct {
		name string
		l    Lease
		wire string
	}{
		{"version 1", Lease{Key: guid, State: LeaseRead | LeaseWrite, Flags: LeaseBreaking}, guidWire + "05000000 02000000 0000000000000000"},
		{
			"version 2", Lease{Key: guid, State: LeaseRead | LeaseHandle, Flags: LeaseParentKeySet, V2: true, ParentKey: parent, Epoch: 0x0102},
			guidWire + "03000000 04000000 0000000000000000 b0b1b2b3b4b5b6b7b8b9babbbcbdbebf 0201 0000",
		},
	} {
		want := unhex(t, g.wire)
		if got := g.l.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", g.name, got, want)
		}
		if got, err := DecodeLease(want); err != nil || got != g.l {
			t.Errorf("%s: decoded %+v, %v", g.name, got, err)
		}
		for n := range want {
			if _, err := DecodeLease(want[:n]); (err == nil) != (n == leaseSize) {
				t.Errorf("%s: %d of %d bytes: %v", g.name, n, len(want), err)
			}
		}
		if _, err := DecodeLease(append(want, 0)); !errors.Is(err, ErrStructureSize) {
			t.Errorf("%s: a byte more: %v", g.name, err)
		}
	}
}

// Source: [MS-SMB2 2.2.13.2.10]
func TestLeaseContextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[Lease]().Draw(t, "lease")
		if !want.V2 {
			want.ParentKey, want.Epoch = [16]byte{}, 0
		}
		if got, err := DecodeLease(want.AppendTo(nil)); err != nil || got != want {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// Any bytes are refused, or decode to a value that encodes to the same fields.
//
// Source: [MS-SMB2 2.2.13.2.8]
func FuzzLeaseContext(f *testing.F) {
	for _, l := range []Lease{{Key: guid, State: 7}, {Key: guid, State: 3, V2: true, Epoch: 9}} {
		f.Add(l.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLease(b)
		if err != nil {
			return
		}
		if again, err := DecodeLease(l.AppendTo(nil)); err != nil || again != l {
			t.Fatalf("%+v, %v, want %+v", again, err, l)
		}
	})
}
