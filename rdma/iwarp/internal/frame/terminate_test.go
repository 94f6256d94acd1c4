package frame

import (
	"bytes"
	"testing"
)

// Every fault is decoded in the bit orders of the RFC and of siw: without headers, with
// the header of a Write, and with the headers of a Read Request.
//
// Source: [RFC 5040 §4.8]
func TestTerminateDecodesInBothBitOrders(t *testing.T) {
	write, read := TaggedSegment(OpWrite, 1, 2, true), UntaggedSegment(OpReadRequest, QueueRequest, 1, 0, true)
	for f := range faultNames {
		for _, c := range []struct {
			rfc, siw byte
			Header   []byte
		}{
			{0, 0, nil},
			{0xC0, 0x03, write.AppendTo(nil)},
			{0xE0, 0x07, (&ReadRequest{1, 2, 3, 4, 5}).AppendTo(read.AppendTo(nil))},
		} {
			if c.Header == nil && f.Layer != LayerLLP && f.Kind != 0 {
				continue // always with a header
			}
			rest := c.Header
			if rest != nil {
				rest = append([]byte{0, 30}, rest...)
			}
			for order, b := range map[string][]byte{
				"RFC": append([]byte{f.Layer<<4 | f.Kind, f.Code, c.rfc, 0}, rest...),
				"siw": append([]byte{f.Kind<<4 | f.Layer, f.Code, c.siw, 0}, rest...),
			} {
				got, err := DecodeTerminate(b)
				if err != nil || got.Fault != f || got.Control != c.rfc || !bytes.Equal(got.Header, c.Header) {
					t.Errorf("%v in %s order: %v %x %x %v", f, order, got.Fault, got.Control, got.Header, err)
				}
			}
		}
	}
}
