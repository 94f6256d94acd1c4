package packaging_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/internal/wire"
)

// Ports of the capture: of SMB, of RDMA, and of the client.
const (
	smbPort    = 4450
	rdmaPort   = 5445
	clientPort = 40000
)

// capture is a file of packets.
type capture struct {
	bytes.Buffer
	sent [1 << 16]uint32 // bytes of a stream so far, by the sum of its source and twice its destination
}

// newCapture begins a capture of Ethernet.
func newCapture() *capture {
	c := &capture{}
	for _, word := range []uint32{0xA1B2C3D4, 4<<16 | 2, 0, 0, 1 << 18, 1} {
		_ = binary.Write(c, binary.LittleEndian, word)
	}
	return c
}

// add adds a segment of TCP on loopback.
func (c *capture) add(from, to uint16, payload []byte) {
	tcp := binary.BigEndian.AppendUint16(nil, from)
	tcp = binary.BigEndian.AppendUint16(tcp, to)
	stream := &c.sent[from+2*to]
	tcp = binary.BigEndian.AppendUint32(tcp, 1+*stream)
	tcp = binary.BigEndian.AppendUint32(tcp, 1+c.sent[to+2*from])
	tcp = append(tcp, 5<<4, 0x18, 0xFF, 0xFF, 0, 0, 0, 0)
	*stream += uint32(len(payload))
	ip := []byte{0x45, 0}
	ip = binary.BigEndian.AppendUint16(ip, uint16(20+len(tcp)+len(payload)))
	ip = append(ip, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1)
	frame := bytes.Join([][]byte{make([]byte, 12), {8, 0}, ip, tcp, payload}, nil)
	for _, word := range []uint32{1, 0, uint32(len(frame)), uint32(len(frame))} {
		_ = binary.Write(c, binary.LittleEndian, word)
	}
	c.Write(frame)
}

// startup is a frame of MPA that begins a connection, with CRCs and with four bytes of private data.
//
// Source: RFC 5044, section 7.1; RFC 6581, section 8
func startup(key string) []byte { return append([]byte(key), 0x40, 2, 0, 4, 0, 1, 0, 1) }

// send is an FPDU with a whole Send of RDMAP.
//
// Source: RFC 5044, section 4; RFC 5041, section 4.3; RFC 5040, section 4
func send(number uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(18+len(payload)))
	b = append(b, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(append(b, 0, 0, 0, 0), payload...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// transceive is a message of SMB 2 with FSCTL_PIPE_TRANSCEIVE.
//
// Source: MS-SMB2, sections 2.2.31 and 2.2.32
func transceive(response bool, data []byte) []byte {
	header := make([]byte, 64)
	copy(header, "\xFESMB")
	header[4], header[12], header[24] = 64, 11, 1 // size, IOCTL, message id
	var body []byte
	if response {
		header[16] = 1
		body = make([]byte, 48)
		body[0] = 49
		binary.LittleEndian.PutUint32(body[32:], 64+48)
		binary.LittleEndian.PutUint32(body[36:], uint32(len(data)))
	} else {
		body = make([]byte, 56)
		body[0], body[48] = 57, 1
		binary.LittleEndian.PutUint32(body[24:], 64+56)
		binary.LittleEndian.PutUint32(body[28:], uint32(len(data)))
		binary.LittleEndian.PutUint32(body[44:], 0xFFFF)
	}
	binary.LittleEndian.PutUint32(body[4:], 0x0011C017)
	message := bytes.Join([][]byte{header, body, data}, nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// TestWiresharkShowsLWIO has tshark dissect a connection over iWARP and a negotiation on the pipe.
func TestWiresharkShowsLWIO(t *testing.T) {
	tshark := need(t, "tshark")
	blocks := []wire.AddressBlock{{Name: "iwarp", Instances: []wire.NetAddress{{HostAddress: []byte{10, 1, 2, 3}, Discriminator: []byte{0x15, 0x45}}}}}
	request, err := (&wire.NegotiateRequest{ClientName: "a client", ResponseLength: 4096, Providers: blocks}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&wire.NegotiateResponse{ServerName: "a server", Providers: blocks}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	read := wire.NewRead(7, 8192, wire.RDMARegion{})
	read.Length, read.Marker, read.Flags, read.Cookie = 4096, wire.Marker, wire.FlagInterrupt, 0x1234
	c := newCapture()
	c.add(clientPort, smbPort, transceive(false, request))
	c.add(smbPort, clientPort, transceive(true, response))
	c.add(clientPort, rdmaPort, startup("MPA ID Req Frame"))
	c.add(rdmaPort, clientPort, startup("MPA ID Rep Frame"))
	c.add(clientPort, rdmaPort, send(1, read.AppendTo(nil)))
	c.add(rdmaPort, clientPort, send(1, (&wire.StatusResponse{Cookie: 0x1234, Information: 4096, Status: 0xC0000054}).AppendTo(nil)))
	c.add(clientPort, smbPort, transceive(false, request[:600]))
	file := filepath.Join(t.TempDir(), "lwio.pcap")
	if err := os.WriteFile(file, c.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	fields := func(filter string, names ...string) string {
		t.Helper()
		args := []string{"-X", "lua_script:" + filepath.Join("..", "..", "packaging", "wireshark", "lwio.lua"), "-o", "tcp.try_heuristic_first:TRUE", "-r", file, "-Y", filter, "-T", "fields"}
		for _, name := range names {
			args = append(args, "-e", name)
		}
		return strings.TrimSpace(run(t, nil, tshark, args...))
	}
	for _, c := range []struct{ filter, fields, want string }{
		{"lwio_negotiate.response_length == 4096 && !lwio_negotiate.malformed", "lwio_negotiate.name lwio_negotiate.provider lwio_negotiate.address lwio_negotiate.discriminator", "a client\tiwarp\t0a010203\t1545"},
		{"lwio_negotiate && tcp.srcport == 4450", "lwio_negotiate.name lwio_negotiate.provider lwio_negotiate.address", "a server\tiwarp\t0a010203"},
		{"lwio_negotiate.malformed", "frame.number", "7"},
		{"lwio.opcode == 0", "lwio.fid lwio.offset lwio.length lwio.cookie", "7\t8192\t4096\t0x0000000000001234"},
		{"lwio.status", "lwio.cookie lwio.information lwio.status", "0x0000000000001234\t4096\t0xc0000054"},
	} {
		if got := fields(c.filter, strings.Fields(c.fields)...); got != c.want {
			t.Errorf("%s: %q, want %q", c.filter, got, c.want)
		}
	}
}
