package iwarp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// negotiation is one combination of the settings of two sides.
type negotiation struct {
	way                     string // revision, and the ready-to-receive message
	peerCRC, ownCRC         bool
	peerMarkers, ownMarkers bool
	private                 int
}

func (n negotiation) String() string {
	return fmt.Sprintf("%s crc %v %v markers %v %v private %d", n.way, n.peerCRC, n.ownCRC, n.peerMarkers, n.ownMarkers, n.private)
}

// config returns the config of this side. It begins with at most the revision of the
// negotiation.
func (n negotiation) config() *Config {
	cfg := &Config{Markers: n.ownMarkers, Revision: int(n.way[0] - '0')}
	if !n.ownCRC {
		cfg.CRC = CRCOff
	}
	return cfg
}

// negotiations lists all combinations of flags. The sizes of the private data alternate.
func negotiations(ways ...string) []negotiation {
	var all []negotiation
	bools := []bool{false, true}
	for _, way := range ways {
		for i := range 16 {
			room := frame.MaxPrivateData
			if way != "1" && way != "2" {
				room -= frame.EnhancedSize
			}
			for _, private := range []int{0, 1, room} {
				if private == 1 && i%3 != 0 {
					continue
				}
				all = append(all, negotiation{way, bools[i&1], bools[i>>1&1], bools[i>>2&1], bools[i>>3&1], private})
			}
		}
	}
	return all
}

// startupBytes makes a start-up frame without the codec. enhanced are the words of
// revision 2, or nil.
func startupBytes(key string, markers, crc bool, revision byte, enhanced []byte, private []byte) []byte {
	flags := byte(0)
	if markers {
		flags |= 0x80
	}
	if crc {
		flags |= 0x40
	}
	if enhanced != nil {
		flags |= 0x10
	}
	b := append([]byte("MPA ID "+key+" Frame"), flags, revision)
	b = binary.BigEndian.AppendUint16(b, uint16(len(enhanced)+len(private)))
	return append(append(b, enhanced...), private...)
}

// stream returns the first bytes of a side: a marker if the other side wants markers,
// then the frames, which are given without their CRCs.
func stream(t testing.TB, markers, crc bool, frames ...string) []byte {
	var out []byte
	for i, f := range frames {
		var b []byte
		if markers && i == 0 {
			b = make([]byte, 4)
		}
		b = append(b, decodeHex(t, f)...)
		sum := uint32(0)
		if crc {
			sum = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		}
		out = append(out, binary.LittleEndian.AppendUint32(b, sum)...)
	}
	return out
}

// Frames without their CRCs.
const (
	frameWrite    = "000e c140 00000000 0000000000000000"                     // of no bytes
	frameSend     = "0012 4143 00000000 00000000 00000001 00000000"           // of no bytes
	frameRead     = "002e 4141 00000000 00000001 00000001 00000000"           // followed by its content
	readContent   = "00000005 0000000000000006 00000000 00000000" + "%016x"   // of no bytes
	frameResponse = "000e c142 00000005 0000000000000006"                     // to that read
	frameHi       = "0014 4143 00000000 00000000 0000000%d 00000000 68690000" // Send
)

// terms has, for each way, the limits that the passive side reports and grants, if its
// own limits are 3 and 2.
var terms = map[string]struct {
	request, reply []byte
	first          string // of the active side
	answer         string // of the passive side
}{
	"1":               {first: frameWrite},
	"2":               {first: frameWrite},
	"2 client-server": {request: []byte{0, 9, 0, 1}, reply: []byte{0, 1, 0, 2}, first: frameWrite},
	"2 write":         {request: []byte{0x80, 9, 0x80, 9}, reply: []byte{0x80, 3, 0x80, 2}, first: frameWrite},
	"2 send":          {request: []byte{0xC0, 0, 0x00, 0}, reply: []byte{0xC0, 0, 0x00, 0}, first: frameSend},
	"2 read":          {request: []byte{0x80, 1, 0x40, 1}, reply: []byte{0x80, 1, 0x40, 1}, first: frameRead + fmt.Sprintf(readContent, 0), answer: frameResponse},
	"2 all":           {request: []byte{0xC0, 1, 0xC0, 1}, reply: []byte{0x80, 1, 0x80, 1}, first: frameWrite},
	"2 any numbers":   {request: []byte{0xBF, 0xFF, 0xBF, 0xFF}, reply: []byte{0xBF, 0xFF, 0xBF, 0xFF}, first: frameWrite},
	"2 read, any":     {request: []byte{0xBF, 0xFF, 0x7F, 0xFF}, reply: []byte{0xBF, 0xFF, 0x7F, 0xFF}, first: frameRead + fmt.Sprintf(readContent, 0), answer: frameResponse},
	"2 none":          {request: []byte{0x80, 0, 0x00, 0}, reply: []byte{0x80, 0, 0x80, 0}, first: frameWrite},
}

// The passive side negotiates every combination correctly, byte by byte, up to the first
// message of each side.
//
// Source: [RFC 5044 §7.1], [RFC 5044 §4.3], [RFC 6581 §9]
func TestPassiveSideNegotiatesAllCombinations(t *testing.T) {
	ways := make([]string, 0, len(terms))
	for way := range terms {
		ways = append(ways, way)
	}
	slices.Sort(ways)
	for _, n := range negotiations(ways...) {
		t.Run(n.String(), func(t *testing.T) {
			c := terms[n.way]
			cfg := n.config()
			cfg.Revision = 0
			server, l, addr := listenSide(t, cfg, shape{depth: 4, sge: 1, buf: 4096})
			server.recv(1, 0, 8)
			copy(server.buf[100:], "hi")
			ours, theirs := bytes.Repeat([]byte{7}, n.private), bytes.Repeat([]byte{9}, n.private)
			ours = ours[:min(len(ours), 508)]
			p := dialRaw(t, addr)
			p.send(startupBytes("Req", n.peerMarkers, n.peerCRC, n.way[0]-'0', c.request, theirs))
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			if err := l.ConnectionRequest(ctx, server.con); err != nil {
				t.Fatal(err)
			}
			if got, err := server.con.PrivateData(); !bytes.Equal(got, theirs) || err != nil {
				t.Errorf("private data %x %v", got, err)
			}
			accepted := make(chan error, 1)
			go func() {
				accepted <- server.con.Accept(t.Context(), server.qp, rdma.ReadLimits{Inbound: 3, Outbound: 2}, ours)
			}()
			crc := n.peerCRC || n.ownCRC
			p.want(startupBytes("Rep", n.ownMarkers, crc, n.way[0]-'0', c.reply, ours))
			p.send(stream(t, n.ownMarkers, crc, c.first))
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			if c.answer != "" {
				p.want(stream(t, n.peerMarkers, crc, c.answer))
			}
			server.post(rdma.Request{Op: rdma.OpSend, ID: 2, SGL: server.sgl(100, 2)})
			p.want(stream(t, n.peerMarkers && c.answer == "", crc, fmt.Sprintf(frameHi, 1)))
		})
	}
}

// want reads exactly b.
func (p *rawPeer) want(b []byte) {
	p.t.Helper()
	got := make([]byte, len(b))
	if n, err := io.ReadFull(p.nc, got); err != nil || !bytes.Equal(got, b) {
		p.t.Fatalf("%x %v, want %x", got[:n], err, b)
	}
}

// offers has, for each way, the limits that an active side with limits 3 and 2 asks for,
// the possible answers of a peer, and the following messages.
var offers = map[string]struct {
	reply []byte
	first string
	next  int // number of the next Send
}{
	"1":               {next: 1},
	"2 client-server": {reply: []byte{0, 2, 0, 3}, next: 1},
	"2 write":         {reply: []byte{0x80, 2, 0x80, 3}, first: frameWrite, next: 1},
	"2 send":          {reply: []byte{0xC0, 2, 0x00, 3}, first: frameSend, next: 2},
	"2 read":          {reply: []byte{0x80, 2, 0x40, 3}, first: frameRead, next: 1},
	"2 all":           {reply: []byte{0xC0, 9, 0xC0, 0}, first: frameWrite, next: 1},
	"2 send or read":  {reply: []byte{0xC0, 1, 0x40, 1}, first: frameSend, next: 2},
}

// The active side negotiates every combination correctly.
//
// Source: [RFC 5044 §7.1], [RFC 5044 §4.3], [RFC 6581 §9]
func TestActiveSideNegotiatesAllCombinations(t *testing.T) {
	ways := make([]string, 0, len(offers))
	for way := range offers {
		ways = append(ways, way)
	}
	slices.Sort(ways)
	for _, n := range negotiations(ways...) {
		t.Run(n.String(), func(t *testing.T) {
			c := offers[n.way]
			ours, theirs := bytes.Repeat([]byte{7}, n.private), bytes.Repeat([]byte{9}, n.private)
			var enhanced []byte
			if n.way != "1" {
				enhanced = []byte{0xC0, 3, 0xC0, 2}
			}
			done := make(chan struct{})
			addr := rawListener(t, func(p *rawPeer) {
				defer close(done)
				p.want(startupBytes("Req", n.ownMarkers, n.ownCRC, n.way[0]-'0', enhanced, ours))
				p.send(startupBytes("Rep", n.peerMarkers, n.peerCRC, n.way[0]-'0', c.reply, theirs))
				crc := n.peerCRC || n.ownCRC
				var frames []string
				switch {
				case c.first == frameRead:
					p.readyByRead(n.peerMarkers, n.ownMarkers, crc)
				case c.first != "":
					frames = append(frames, c.first)
				}
				frames = append(frames, fmt.Sprintf(frameHi, c.next))
				p.want(stream(t, n.peerMarkers && c.first != frameRead, crc, frames...))
			})
			client := newSide(t, n.config(), shape{depth: 4, sge: 1, buf: 4096})
			con, err := rdma.Dial(t.Context(), client.a, client.qp, addr, rdma.DialConfig{
				PrivateData: ours, Limits: rdma.ReadLimits{Inbound: 3, Outbound: 2},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := con.PrivateData(); !bytes.Equal(got, theirs) || err != nil {
				t.Errorf("private data %x %v", got, err)
			}
			copy(client.buf, "hi")
			client.post(rdma.Request{Op: rdma.OpSend, ID: 2, SGL: client.sgl(0, 2)})
			client.want(rdma.OpSend, 2, rdma.StatusSuccess)
			<-done
			con.Close()
		})
	}
}

// readyByRead receives a Read of no bytes to an unknown sink, and answers it.
func (p *rawPeer) readyByRead(markers, marked, crc bool) {
	head := stream(p.t, markers, false, frameRead)
	got := make([]byte, len(head)-frame.CRCSize+frame.ReadRequestSize+frame.CRCSize)
	if _, err := io.ReadFull(p.nc, got); err != nil {
		p.t.Error(err)
	}
	head = head[:len(head)-frame.CRCSize]
	content := got[len(head) : len(got)-frame.CRCSize]
	if !bytes.Equal(got[:len(head)], head) || !bytes.Equal(content[12:], make([]byte, 16)) {
		p.t.Errorf("ready-to-receive message %x", got)
	}
	if crc && !frame.CheckFPDU(got) {
		p.t.Error("its CRC is wrong")
	}
	p.send(stream(p.t, marked, crc, fmt.Sprintf("000e c142 %x", content[:12])))
}

// A side that grants no reads still answers a Read that is the ready-to-receive message,
// with and without numbers in the frames.
//
// Source: [RFC 6581 §9.1], [RFC 6581 §9.2]
func TestReadyReadFitsWithoutReadLimits(t *testing.T) {
	for _, c := range []struct{ request, reply []byte }{
		{[]byte{0x80, 0, 0x40, 1}, []byte{0x80, 1, 0x40, 0}},
		{[]byte{0xBF, 0xFF, 0x7F, 0xFF}, []byte{0xBF, 0xFF, 0x7F, 0xFF}},
	} {
		server, l, addr := listenSide(t, nil, shape{depth: 4, sge: 1, buf: 4096})
		p := dialRaw(t, addr)
		p.send(startupBytes("Req", false, true, 2, c.request, nil))
		if err := l.ConnectionRequest(t.Context(), server.con); err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() { accepted <- server.con.Accept(t.Context(), server.qp, rdma.ReadLimits{}, nil) }()
		p.want(startupBytes("Rep", false, true, 2, c.reply, nil))
		p.send(stream(t, false, true, frameRead+fmt.Sprintf(readContent, 0)))
		p.want(stream(t, false, true, frameResponse))
		if err := <-accepted; err != nil {
			t.Error(err)
		}
	}
}
