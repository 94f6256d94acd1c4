package smbauth

import (
	"fmt"
	"math"
)

// derCursor decodes a sequence of elements. After an error it returns zero values.
type derCursor struct {
	b   []byte
	err error
}

// next reports whether the next element has a tag.
func (c *derCursor) next(tag byte) bool { return c.err == nil && len(c.b) > 0 && c.b[0] == tag }

// sub returns the content of the next element, which must have a tag.
func (c *derCursor) sub(tag byte) []byte {
	if c.err != nil {
		return nil
	}
	got, content, rest, err := derNext(c.b)
	if err == nil && got != tag {
		err = fmt.Errorf("DER tag %#x, wanted %#x: %w", got, tag, ErrToken)
	}
	if err != nil {
		c.err = err
		return nil
	}
	c.b = rest
	return content
}

// enter goes on in the content of the next element, which must be the last one.
func (c *derCursor) enter(tag byte) {
	content := c.sub(tag)
	if c.end(); c.err == nil {
		c.b = content
	}
}

// end checks that no element is left.
func (c *derCursor) end() {
	if c.err == nil && len(c.b) > 0 {
		c.err = fmt.Errorf("DER with %d bytes after its end: %w", len(c.b), ErrToken)
	}
}

// field returns the content of an element within others, the outermost tag first.
func (c *derCursor) field(tags ...byte) []byte {
	content := c.sub(tags[0])
	for _, tag := range tags[1:] {
		if c.err == nil {
			content, c.err = derOnly(content, tag)
		}
	}
	return content
}

// integer returns an integer of 32 bits under a tag.
func (c *derCursor) integer(tag byte) (n int64) {
	content := c.field(tag, derInteger)
	if c.err == nil && (len(content) == 0 || len(content) > 5) {
		c.err = fmt.Errorf("DER integer of %d bytes: %w", len(content), ErrToken)
	}
	if c.err != nil {
		return 0
	}
	n = int64(int8(content[0]))
	for _, d := range content[1:] {
		n = n<<8 | int64(d)
	}
	if n < math.MinInt32 || n > math.MaxUint32 {
		c.err = fmt.Errorf("DER integer %d: %w", n, ErrToken)
	}
	return n
}

// number checks that the integer under a tag has a value.
func (c *derCursor) number(tag byte, want int64) {
	if n := c.integer(tag); c.err == nil && n != want {
		c.err = fmt.Errorf("DER integer %d, wanted %d: %w", n, want, ErrToken)
	}
}

// name returns a text of a bounded length.
func (c *derCursor) name(tags ...byte) string {
	content := c.field(tags...)
	if c.err == nil && len(content) > maxKerberosName {
		c.err = fmt.Errorf("DER text of %d bytes: %w", len(content), ErrToken)
		return ""
	}
	return string(content)
}

// derNumber appends an integer under a tag.
func derNumber(b []byte, tag byte, n int64) []byte {
	content := []byte{byte(n)}
	for n>>7 != 0 && n>>7 != -1 {
		n >>= 8
		content = append([]byte{byte(n)}, content...)
	}
	return append(b, derWrap(content, tag, derInteger)...)
}
