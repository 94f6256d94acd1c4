package smbserver

import (
	"bytes"
	"encoding/binary"
	"testing"

	"lwio/internal/ntstatus"
)

// smb1Negotiate offers dialects by name.
func smb1Negotiate(names ...string) []byte {
	m := append([]byte("\xffSMB\x72"), make([]byte, 27)...)
	var list []byte
	for _, n := range names {
		list = append(append(append(list, 2), n...), 0)
	}
	m = append(m, 0)
	m = le.AppendUint16(m, uint16(len(list)))
	m = append(m, list...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...)
}

// Source: [OP-5c], [LWIO claim 4], [LWIO claim 5], [MS-SMB2 3.3.5.3]
func TestSMB1NegotiateLeadsToSMB2(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.write(smb1Negotiate("NT LM 0.12", "SMB 2.002", "SMB 2.???"))
	if r := c.recv()[0]; r.status != ntstatus.Success || le.Uint16(r.body[4:]) != 0x02FF || r.id != 0 {
		t.Fatalf("response %v, dialect %#x", r.status, le.Uint16(r.body[4:]))
	}
	c.id = 1
	c.mustNegotiate(0x0302)
	c.mustSetup(testUser, testPassword)

	c = dial(t, addr)
	c.write(smb1Negotiate("NT LM 0.12", "SMB 2.002"))
	if r := c.recv()[0]; le.Uint16(r.body[4:]) != 0x0202 {
		t.Fatalf("dialect %#x", le.Uint16(r.body[4:]))
	}
	c.id, c.dialect = 1, 0x0202
	c.mustSetup(testUser, testPassword)

	// After the wildcard only a negotiation may follow.
	c = dial(t, addr)
	c.write(smb1Negotiate("SMB 2.???"))
	c.recv()
	c.id = 1
	c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
	c.wantCut()
}

// Source: [OP-5c]
func TestSMB1AloneIsRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.write(smb1Negotiate("PC NETWORK PROGRAM 1.0", "NT LM 0.12"))
	b, err := c.readFrame()
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:5]) != "\xffSMB\x72" || b[9]&0x80 == 0 || !bytes.Equal(b[32:], []byte{1, 0xFF, 0xFF, 0, 0}) {
		t.Errorf("response %x, want the refusal of all dialects", b)
	}
	c.wantCut()
}
