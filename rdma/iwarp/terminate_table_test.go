package iwarp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// sent has the cause of one row of the error tables at this side, or the reason why its
// Terminate is never sent.
type sent struct {
	// frame is a frame of the peer, with a header and without a CRC. %t and %a stand for
	// the token and the address of a region of 64 KiB with remote read and write rights.
	// The Terminate carries the headers of the frame.
	frame string
	want  string // first four bytes
	never string
}

// Reasons for Terminates that are never sent.
const (
	otherStream = "a token of another stream is not looked for: it is as unknown as any, and the peer gets no hint"
	alwaysKnown = "a more specific error is always known"
	localCause  = "a lack of resources ends the connection without a Terminate"
	noWire      = "no connection exists to send it on"
)

// rows has all rows of all error tables.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
var rows = map[frame.Fault]sent{
	frame.FaultLocal:                {want: "00000000"}, // TestLocalFaultSendsTerminate
	frame.FaultReadSTag:             {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 00000002 %a", want: "0100e000"},
	frame.FaultReadBounds:           {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00010001 %t %a", want: "0101e000"},
	frame.FaultReadAccess:           {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 %t %a", want: "0102e000"},
	{Layer: 0, Kind: 1, Code: 3}:    {never: otherStream},
	frame.FaultReadWrap:             {frame: "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000002 00000008 %t fffffffffffffffc", want: "0104e000"},
	frame.FaultCannotInval:          {frame: "0012 4144 %t 00000000 00000001 00000000", want: "0109c000"},
	{Layer: 0, Kind: 1, Code: 0xFF}: {never: alwaysKnown},
	frame.FaultRDMAPVersion:         {frame: "0012 4103 00000000 00000000 00000001 00000000", want: "0205c000"},
	frame.FaultOpcode:               {frame: "0012 414f 00000000 00000000 00000001 00000000", want: "0206c000"},
	frame.FaultStream:               {frame: "0046 414a 00000000 00000001 00000001 00000000 00000000 00000001 %t 0000400000000004" + fmt.Sprintf("%064x", 0), want: "0207c000"},
	{Layer: 0, Kind: 2, Code: 8}:    {never: localCause},
	{Layer: 0, Kind: 2, Code: 9}:    {never: "a remote protection error is more specific"},
	frame.FaultRDMAPOther:           {frame: "001a 4148 00000000 00000000 00000001 00000000", want: "02ffc000"},
	{Layer: 1, Kind: 0, Code: 0}:    {never: localCause},
	frame.FaultSTag:                 {frame: "0012 c140 00000002 %a 01020304", want: "1100c000"},
	frame.FaultBounds:               {frame: "0012 c140 %t 0000400000000fff 01020304", want: "1101c000"},
	{Layer: 1, Kind: 1, Code: 2}:    {never: otherStream},
	frame.FaultWrap:                 {frame: "0012 c140 %t ffffffffffffffff 01020304", want: "1103c000"},
	frame.FaultTaggedVersion:        {frame: "0012 c240 %t %a 01020304", want: "1104c000"},
	frame.FaultQN:                   {frame: "0012 4143 00000000 00000004 00000001 00000000", want: "1201c000"},
	frame.FaultNoBuffer:             {frame: "0012 4143 00000000 00000000 00000001 00000000", want: "1202c000"},
	frame.FaultMSN:                  {frame: "0012 4143 00000000 00000000 00000003 00000000", want: "1203c000"},
	frame.FaultMO:                   {frame: "0012 4143 00000000 00000000 00000001 00000001", want: "1204c000"},
	frame.FaultTooLong:              {frame: "001e 4143 00000000 00000000 00000001 00000000" + fmt.Sprintf("%024x", 0), want: "1205c000"},
	frame.FaultUntaggedVers:         {frame: "0012 4043 00000000 00000000 00000001 00000000", want: "1206c000"},
	{Layer: 2, Kind: 0, Code: 1}:    {never: noWire},
	frame.FaultCRC:                  {frame: "0012 4143 00000000 00000000 00000001 00000000", want: "20020000"},
	frame.FaultFraming:              {frame: "000d c140 00000000 00000000000000", want: "20030000"},
	{Layer: 2, Kind: 0, Code: 4}:    {never: "a wrong start-up frame closes TCP at once"},
	frame.FaultStartup:              {want: "20050000"}, // TestFailedNegotiationSendsTerminate, also for the next two
	frame.FaultDepth:                {want: "20060000"},
	frame.FaultRTR:                  {want: "20070000"},
}

// Every rule is broken once, and the whole Terminate is right.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
func TestEveryFaultHasItsTerminate(t *testing.T) {
	known := knownFaults()
	for f := range known {
		if _, ok := rows[f]; !ok {
			t.Errorf("%v: no row", f)
		}
	}
	for f, row := range rows {
		if !known[f] {
			t.Errorf("%v: no name", f)
		}
		if row.frame == "" {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			e, p := connectReads(t, CRCOn, readyWrite)
			access := rdma.AccessRemoteRead | rdma.AccessRemoteWrite
			if f == frame.FaultReadAccess {
				access = rdma.AccessRemoteWrite
			}
			mr, err := e.a.RegisterMemory(t.Context(), e.buf[:64<<10], access)
			if err != nil {
				t.Fatal(err)
			}
			if f != frame.FaultNoBuffer {
				e.recv(1, 0, 11)
			}
			at := mr.RemoteAddr()
			filled := bytes.ReplaceAll([]byte(row.frame), []byte("%t"), fmt.Appendf(nil, "%08x", at.Token))
			filled = bytes.ReplaceAll(filled, []byte("%a"), fmt.Appendf(nil, "%016x", at.Addr))
			sending := decodeHex(t, string(filled))
			if f == frame.FaultStream { // an unaligned address in the region
				for i := range 8 {
					sending[2+18+12+i] = byte((at.Addr + 4) >> (56 - 8*i))
				}
			}
			if f == frame.FaultRDMAPOther { // eight bytes are too many for two segments
				sending = append(sending, make([]byte, 8)...)
				sending[2] = 0x01
			}
			ulpdu := int(sending[1])
			sending = append(sending, make([]byte, frame.PadOf(ulpdu))...)
			wire := stream(t, false, true, fmt.Sprintf("%x", sending))
			if f == frame.FaultCRC {
				wire[len(wire)-1] ^= 0x80
			}
			p.send(wire)
			body := decodeHex(t, row.want)
			if body[2]&0x40 != 0 {
				body = append(body, 0, byte(ulpdu))
				header := 18
				if sending[2]&0x80 != 0 {
					header = 14
				}
				if body[2]&0x20 != 0 {
					header += 28
				}
				body = append(body, sending[2:2+header]...)
			}
			full := append([]byte{0, byte(18 + len(body))}, decodeHex(t, "4147 00000000 00000002 00000001 00000000")...)
			full = append(full, body...)
			full = append(full, make([]byte, frame.PadOf(18+len(body)))...)
			p.want(stream(t, false, true, fmt.Sprintf("%x", full)))
			p.wantEnd()
		})
	}
}

// A fault of this side is reported as local, without a header. It replaces the message
// that could not be made.
//
// Source: [RFC 5040 §4.8]
func TestLocalFaultSendsTerminate(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	qp := e.qp.(*queuePair)
	mr, err := e.a.RegisterMemory(t.Context(), make([]byte, 64<<10), 0)
	if err != nil {
		t.Fatal(err)
	}
	qp.Initiator.Lock()
	qp.Initiator.Sending = true // no goroutine writes until the region is closed
	qp.Initiator.Unlock()
	e.post(rdma.Request{Op: rdma.OpSend, ID: 1, SGL: []rdma.SGE{{Region: mr, Length: 64 << 10}}})
	mr.Close()
	qp.c.tx.pump()
	p.want(stream(t, false, false, "0016 4147 00000000 00000002 00000001 00000000 00000000"))
	p.wantEnd()
	e.want(rdma.OpSend, 1, rdma.StatusAccessViolation)
}

// knownFaults returns the faults that have a name.
func knownFaults() map[frame.Fault]bool {
	known := make(map[frame.Fault]bool)
	for layer := range uint8(16) {
		for kind := range uint8(16) {
			for code := range 256 {
				f := frame.Fault{Layer: layer, Kind: kind, Code: uint8(code)}
				if !strings.HasPrefix(f.String(), "unknown error") {
					known[f] = true
				}
			}
		}
	}
	return known
}
