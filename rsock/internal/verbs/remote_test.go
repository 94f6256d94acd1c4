package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
)

// TestHostileDescriptorsReachNoMemory has a peer misuse descriptors: it reaches no memory
// and loses its connection, and no other connection ends.
//
// Source: [WSD §6], [WSD §2.3 WSPRegisterRdmaMemory]
func TestHostileDescriptorsReachNoMemory(t *testing.T) {
	const size = 4096
	for name, c := range map[string]struct {
		access Access
		bend   func(t *testing.T, b, other *end, desc []byte) []byte
		read   bool
	}{
		"after deregistration": {MemReadWrite, func(t *testing.T, b, _ *end, desc []byte) []byte {
			if err := b.DeregisterRdmaMemory(desc); err != nil {
				t.Fatal(err)
			}
			return desc
		}, false},
		"read after deregistration": {MemReadWrite, func(t *testing.T, b, _ *end, desc []byte) []byte {
			if err := b.DeregisterRdmaMemory(desc); err != nil {
				t.Fatal(err)
			}
			return desc
		}, true},
		"of another connection": {MemReadWrite, func(_ *testing.T, _, other *end, _ []byte) []byte {
			return other.expose(other.buf, MemReadWrite)
		}, false},
		"read of another connection": {MemReadWrite, func(_ *testing.T, _, other *end, _ []byte) []byte {
			return other.expose(other.buf, MemReadWrite)
		}, true},
		"wrong direction": {MemRead, func(_ *testing.T, _, _ *end, desc []byte) []byte {
			desc[1] = byte(MemReadWrite)
			return desc
		}, false},
		"read in the wrong direction": {MemWrite, func(_ *testing.T, _, _ *end, desc []byte) []byte {
			desc[1] = byte(MemReadWrite)
			return desc
		}, true},
		"past the end": {MemReadWrite, func(_ *testing.T, _, _ *end, desc []byte) []byte {
			binary.LittleEndian.PutUint64(desc[8:], binary.LittleEndian.Uint64(desc[8:])+size-4)
			return desc
		}, false},
		"read past the end": {MemReadWrite, func(_ *testing.T, _, _ *end, desc []byte) []byte {
			binary.LittleEndian.PutUint64(desc[8:], binary.LittleEndian.Uint64(desc[8:])+size-4)
			return desc
		}, true},
		"before the beginning": {MemReadWrite, func(_ *testing.T, _, _ *end, desc []byte) []byte {
			binary.LittleEndian.PutUint64(desc[8:], binary.LittleEndian.Uint64(desc[8:])-1)
			return desc
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, f fabric) {
				va, vb := service(t, f.make(), nil), service(t, f.make(), nil)
				a, b := pairOn(t, f, va, vb, size)
				bystander, other := pairOn(t, f, va, vb, size)
				random(a.buf)
				mine := bytes.Clone(a.buf)
				target := make([]byte, size)
				desc := c.bend(t, b, other, b.expose(target, c.access))
				var o, recv Overlapped
				if err := b.Recv(&recv, nil, 0); err != nil {
					t.Fatal(err)
				}
				post := a.RdmaWrite
				if c.read {
					post = a.RdmaRead
				}
				if err := post(&o, a.part(0, 8), desc, 0, 0); err != nil {
					t.Fatal(err)
				}
				<-a.connector().Done()
				<-b.connector().Done()
				if _, err := a.wait(&o); err == nil && c.read {
					t.Error("a read that the peer refused succeeds")
				}
				if !bytes.Equal(a.buf, mine) || !bytes.Equal(target, make([]byte, size)) || !bytes.Equal(other.buf, make([]byte, size)) {
					t.Error("bytes have changed")
				}
				_, err := b.wait(&recv)
				fails(t, "pending receive", err, ECONNRESET)
				fails(t, "send on the connection", b.Send(&o, nil, 0), ECONNRESET)
				if err := b.Err(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("the connection ended with %v", err)
				}

				// The other connection of the same two services goes on.
				if err := other.Recv(&recv, other.part(0, 8), 0); err != nil {
					t.Fatal(err)
				}
				bystander.ok("send", &o, bystander.Send(&o, bystander.part(0, 8), 0))
				other.ok("receive", &recv, nil)
			})
		})
	}
}
