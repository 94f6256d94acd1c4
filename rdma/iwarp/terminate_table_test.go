package iwarp

import (
	"bytes"
	"fmt"
	"testing"

	"lwio/rdma"
)

// sent is how this side comes to send the Terminate of one row of the error
// tables, or why it never does.
type sent struct {
	// frame is what the peer sends, given with a header and without a CRC; %t and
	// %a stand for token and address of a region of 64 KiB that it may read and
	// write. The headers that the Terminate has are those of the frame.
	frame string
	want  string // first four bytes
	never string
}

// Reasons for what is never sent.
const (
	notAsked = "a token of another stream is not looked for: it is as unknown as any, and the peer learns nothing of it"
	notGuess = "what is wrong is always known better"
	notHere  = "what this side runs out of ends the connection without blaming anybody"
	noWire   = "there is no connection that it could be sent on"
)

// rows are all rows of all error tables.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
var rows = map[fault]sent{
	faultLocal:         {want: "00000000"}, // TestTerminateLocal
	faultReadSTag:      {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 00000002 %a", want: "0100e000"},
	faultReadBounds:    {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00010001 %t %a", want: "0101e000"},
	faultReadAccess:    {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 %t %a", want: "0102e000"},
	{0, 1, 3}:          {never: notAsked},
	faultReadWrap:      {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 %t fffffffffffffffc", want: "0104e000"},
	faultCannotInval:   {frame: "0012 4144 %t 00000000 00000001 00000000", want: "0109c000"},
	{0, 1, 0xFF}:       {never: notGuess},
	faultRDMAPVersion:  {frame: "0012 4103 00000000 00000000 00000001 00000000", want: "0205c000"},
	faultOpcode:        {frame: "0012 414f 00000000 00000000 00000001 00000000", want: "0206c000"},
	faultStream:        {frame: "0046 414a 00000000 00000001 00000001 00000000 00000000 00000001 %t 0000400000000004" + fmt.Sprintf("%064x", 0), want: "0207c000"},
	{0, 2, 8}:          {never: notHere},
	{0, 2, 9}:          {never: "the same as a remote protection error says more"},
	faultRDMAPOther:    {frame: "001a 4148 00000000 00000000 00000001 00000000", want: "02ffc000"},
	{1, 0, 0}:          {never: notHere},
	faultSTag:          {frame: "0012 c140 00000002 %a 01020304", want: "1100c000"},
	faultBounds:        {frame: "0012 c140 %t 0000400000000fff 01020304", want: "1101c000"},
	{1, 1, 2}:          {never: notAsked},
	faultWrap:          {frame: "0012 c140 %t ffffffffffffffff 01020304", want: "1103c000"},
	faultTaggedVersion: {frame: "0012 c240 %t %a 01020304", want: "1104c000"},
	faultQN:            {frame: "0012 4143 00000000 00000004 00000001 00000000", want: "1201c000"},
	faultNoBuffer:      {frame: "0012 4143 00000000 00000000 00000001 00000000", want: "1202c000"},
	faultMSN:           {frame: "0012 4143 00000000 00000000 00000003 00000000", want: "1203c000"},
	faultMO:            {frame: "0012 4143 00000000 00000000 00000001 00000001", want: "1204c000"},
	faultTooLong:       {frame: "001e 4143 00000000 00000000 00000001 00000000" + fmt.Sprintf("%024x", 0), want: "1205c000"},
	faultUntaggedVers:  {frame: "0012 4043 00000000 00000000 00000001 00000000", want: "1206c000"},
	{2, 0, 1}:          {never: noWire},
	faultCRC:           {frame: "0012 4143 00000000 00000000 00000001 00000000", want: "20020000"},
	faultFraming:       {frame: "000d c140 00000000 00000000000000", want: "20030000"},
	{2, 0, 4}:          {never: "a wrong start-up frame closes TCP at once"},
	faultStartup:       {want: "20050000"}, // TestStartupTerminates, as the next two
	faultDepth:         {want: "20060000"},
	faultRTR:           {want: "20070000"},
}

// TestTerminateTable breaks every rule once and compares what this side sends
// then, to the last byte.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
func TestTerminateTable(t *testing.T) {
	for f := range faultNames {
		if _, ok := rows[f]; !ok {
			t.Errorf("%v: no row", f)
		}
	}
	for f, row := range rows {
		if _, ok := faultNames[f]; !ok {
			t.Errorf("%v: no name", f)
		}
		if row.frame == "" {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			e, p := connectReads(t, CRCOn, readyWrite)
			access := rdma.AccessRemoteRead | rdma.AccessRemoteWrite
			if f == faultReadAccess {
				access = rdma.AccessRemoteWrite
			}
			mr, err := e.a.RegisterMemory(t.Context(), e.buf[:64<<10], access)
			if err != nil {
				t.Fatal(err)
			}
			if f != faultNoBuffer {
				e.recv(1, 0, 11)
			}
			at := mr.RemoteAddr()
			filled := bytes.ReplaceAll([]byte(row.frame), []byte("%t"), fmt.Appendf(nil, "%08x", at.Token))
			filled = bytes.ReplaceAll(filled, []byte("%a"), fmt.Appendf(nil, "%016x", at.Addr))
			frame := unhex(t, string(filled))
			if f == faultStream { // an address that is not aligned, but there
				for i := range 8 {
					frame[2+18+12+i] = byte((at.Addr + 4) >> (56 - 8*i))
				}
			}
			if f == faultRDMAPOther { // eight bytes are too many for two segments
				frame = append(frame, make([]byte, 8)...)
				frame[2] = 0x01
			}
			ulpdu := int(frame[1])
			frame = append(frame, make([]byte, padOf(ulpdu))...)
			wire := stream(t, false, true, fmt.Sprintf("%x", frame))
			if f == faultCRC {
				wire[len(wire)-1] ^= 0x80
			}
			p.send(wire)
			body := unhex(t, row.want)
			if body[2]&0x40 != 0 {
				body = append(body, 0, byte(ulpdu))
				header := 18
				if frame[2]&0x80 != 0 {
					header = 14
				}
				if body[2]&0x20 != 0 {
					header += 28
				}
				body = append(body, frame[2:2+header]...)
			}
			full := append([]byte{0, byte(18 + len(body))}, unhex(t, "4147 00000000 00000002 00000001 00000000")...)
			full = append(full, body...)
			full = append(full, make([]byte, padOf(18+len(body)))...)
			p.want(stream(t, false, true, fmt.Sprintf("%x", full)))
			p.wantEnd()
		})
	}
}

// TestTerminateLocal: what is this side's own fault is called that, without a
// header, in the place of the message that could not be made.
//
// Source: [RFC 5040 §4.8]
func TestTerminateLocal(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	qp := e.qp.(*queuePair)
	mr, err := e.a.RegisterMemory(t.Context(), make([]byte, 64<<10), 0)
	if err != nil {
		t.Fatal(err)
	}
	qp.Initiator.Lock()
	qp.Initiator.Sending = true // nobody writes until the region is closed
	qp.Initiator.Unlock()
	e.post(rdma.Request{Op: rdma.OpSend, ID: 1, SGL: []rdma.SGE{{Region: mr, Length: 64 << 10}}})
	mr.Close()
	qp.c.tx.pump()
	p.want(stream(t, false, false, "0016 4147 00000000 00000002 00000001 00000000 00000000"))
	p.wantEnd()
	e.want(rdma.OpSend, 1, rdma.StatusAccessViolation)
}

// TestTerminateOrders reads every fault as the RFC and as siw lay it out, without
// headers, with that of a Write and with those of a Read Request.
//
// Source: [RFC 5040 §4.8]
func TestTerminateOrders(t *testing.T) {
	write, read := taggedSegment(opWrite, 1, 2, true), readSegment(1)
	for f := range faultNames {
		for _, c := range []struct {
			rfc, siw byte
			header   []byte
		}{
			{0, 0, nil},
			{0xC0, 0x03, write.appendTo(nil)},
			{0xE0, 0x07, (&readRequest{1, 2, 3, 4, 5}).appendTo(read.appendTo(nil))},
		} {
			if c.header == nil && f.layer != layerLLP && f.kind != 0 {
				continue // never without
			}
			rest := c.header
			if rest != nil {
				rest = append([]byte{0, 30}, rest...)
			}
			for order, b := range map[string][]byte{
				"RFC": append([]byte{f.layer<<4 | f.kind, f.code, c.rfc, 0}, rest...),
				"siw": append([]byte{f.kind<<4 | f.layer, f.code, c.siw, 0}, rest...),
			} {
				got, err := decodeTerminate(b)
				if err != nil || got.fault != f || got.control != c.rfc || !bytes.Equal(got.header, c.header) {
					t.Errorf("%v in %s order: %v %x %x %v", f, order, got.fault, got.control, got.header, err)
				}
			}
		}
	}
}
