package wire

import "encoding/binary"

// cursor reads a message of variable size. Once bytes are missing it stays failed and returns
// zeros, so that one check of ok at the end is enough.
type cursor struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes, which alias the message, or nil.
func (c *cursor) take(n int) []byte {
	if c.failed || n > len(c.rest) {
		c.failed = true
		return nil
	}
	p := c.rest[:n:n]
	c.rest = c.rest[n:]
	return p
}

func (c *cursor) u16() uint16 {
	if p := c.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

// ok reports whether no bytes were missing.
func (c *cursor) ok() bool { return !c.failed }
