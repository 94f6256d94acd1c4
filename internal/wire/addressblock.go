package wire

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The least sizes of an address block and of an address, in bytes.
const (
	addressBlockFixed = 2*maxProviderName + 2
	netAddressFixed   = 4
)

// AddressBlock is a provider and the addresses of its instances.
//
//	0 Name, 64 UTF-16 units   128 InstanceCount u16   130 addresses
//
// Source: [LWIO §Network Discovery], [OP-16], [OP-17], [OP-38], [OP-38b]
type AddressBlock struct {
	// Name is the fabric: "iwarp", "shm", "roce", "ib".
	Name      string
	Instances []NetAddress
}

// NetAddress is the address of an instance of a provider. The provider gives the bytes their
// meaning.
//
//	0 HostAddressLen u16   2 DiscriminatorLen u16   4 HostAddress   Discriminator
//
// Source: [LWIO §Network Discovery], [OP-17], [OP-39], [OP-38b]
type NetAddress struct {
	// HostAddress is for iwarp 4 or 16 bytes of IP address, or none for the address of the SMB
	// server.
	HostAddress []byte
	// Discriminator is for iwarp the port, 2 bytes, big-endian.
	Discriminator []byte
}

func (a NetAddress) appendTo(b []byte) ([]byte, error) {
	if len(a.HostAddress) > math.MaxUint16 || len(a.Discriminator) > math.MaxUint16 {
		return nil, cut(negotiate, "an address of %d and %d bytes", len(a.HostAddress), len(a.Discriminator))
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a.HostAddress)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a.Discriminator)))
	b = append(b, a.HostAddress...)
	return append(b, a.Discriminator...), nil
}

func (a AddressBlock) appendTo(b []byte) ([]byte, error) {
	b, err := appendName(b, negotiate, a.Name, maxProviderName)
	if err != nil {
		return nil, err
	}
	if len(a.Instances) > math.MaxUint16 {
		return nil, cut(negotiate, "%d instances of provider %q", len(a.Instances), a.Name)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a.Instances)))
	for _, i := range a.Instances {
		if b, err = i.appendTo(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendBlocks appends the number of blocks and the blocks.
func appendBlocks(b []byte, blocks []AddressBlock) ([]byte, error) {
	if len(blocks) > math.MaxUint16 {
		return nil, cut(negotiate, "%d providers", len(blocks))
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(blocks)))
	var err error
	for _, a := range blocks {
		if b, err = a.appendTo(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// blocks reads the number of blocks and the blocks, whose bytes are copied. Allocations are
// bounded by the size of the message, not by the counts in it.
//
// Source: [LWIO §Network Discovery], [OP-17]
func (c *cursor) blocks() []AddressBlock {
	n := int(c.u16())
	if n == 0 {
		return nil
	}
	blocks := make([]AddressBlock, 0, min(n, len(c.rest)/addressBlockFixed))
	for ; n > 0 && c.ok(); n-- {
		a := AddressBlock{Name: c.name(maxProviderName)}
		a.Instances = c.addresses()
		blocks = append(blocks, a)
	}
	return blocks
}

func (c *cursor) addresses() []NetAddress {
	n := int(c.u16())
	if n == 0 {
		return nil
	}
	addresses := make([]NetAddress, 0, min(n, len(c.rest)/netAddressFixed))
	for ; n > 0 && c.ok(); n-- {
		host, discriminator := int(c.u16()), int(c.u16())
		a := NetAddress{HostAddress: bytes.Clone(c.take(host))}
		a.Discriminator = bytes.Clone(c.take(discriminator))
		addresses = append(addresses, a)
	}
	return addresses
}

// end returns an error unless the message has been read to its last byte.
func (c *cursor) end(message string) error {
	if !c.ok() {
		return cut(message, "cut off, or a name that is not text")
	}
	if len(c.rest) != 0 {
		return cut(message, "%d bytes too many", len(c.rest))
	}
	return nil
}
