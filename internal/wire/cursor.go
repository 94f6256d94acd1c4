package wire

import "encoding/binary"

// cursor reads a message of variable size. Once it lacks bytes it stays failed and
// gives zeros, so that one look at ok at the end is enough.
type cursor struct {
	rest   []byte
	failed bool
}

// take gives the next n bytes, which alias the message, or nil.
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

// ok reports whether all that was asked for was there.
func (c *cursor) ok() bool { return !c.failed }
