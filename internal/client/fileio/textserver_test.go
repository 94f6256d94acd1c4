package fileio

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/test/hexmsg"
	"lwio/internal/wire"
)

// textServer is a server that goes by the text alone, with the values that are depicted
// there, byte for byte: pages of 8 KiB, a window of 512 KiB, messages of 8 KiB and 16
// bytes. It shares no code with the client but the provider.
type textServer struct {
	*rawServer
	t *testing.T

	mu     sync.Mutex
	f      hexmsg.Fields
	data   []byte // of the one file
	next   uint64 // Sequence
	asked  map[byte]int
	armed  []byte // cookie of the INTERRUPT that waits
	missed int    // I/O answered since the beginning
	posted int    // I/O that came
}

func newTextServer(t *testing.T, on string, mode base.CompletionMode, data []byte) *textServer {
	share := newFakeShare()
	share.put("f", nil)
	s := &textServer{t: t, rawServer: newRawServer(t, on, share), f: hexmsg.Fields{}, data: data, next: 1, asked: map[byte]int{}}
	s.mode, s.recvSize = mode, 8<<10
	s.sess.appKey = nil
	s.message = s.answer
	return s
}

// send makes a message of a template and sends it.
func (s *textServer) send(c *rawConn, template string) {
	b, err := s.f.Make(template)
	if err != nil {
		s.t.Error(err)
	}
	c.send(b)
}

func (s *textServer) match(template string, msg []byte) bool {
	if err := s.f.Match(template, msg); err != nil {
		s.t.Errorf("%v; the message begins %x", err, msg[:min(len(msg), 120)])
		return false
	}
	return true
}

// The client's messages; messages of I/O in both modes.
const (
	textAuth = "73000000 06 80 00 FF 0000 0000 00000000 0000000000000000 Va:8 Mh:4 00000000 Cookie:8 " +
		"4C57494F 0110 0800 0010 0000 00000100 30200000 10000000 3000 2000 0000 01 10 SKey 03 10 MD5:16 00"
	textRegister = "54000000 07 80 Credits:1 FF 0000 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 Cookie:8 Key:24 Sid Options:4"
	textControl  = "80 Credits:1 FF Fid:2 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 Cookie:8"
	textWakeUp   = "30000000 09 C0 P:1 FF 0000 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 Cookie:8"
	textIO       = "Length:4 Opcode:1 Flags:1 Credits:1 FF 0300 Seq 00000000 Offset:8 "
	textRead     = textIO + "Va:8 Mh:4 "
	textWrite    = textIO + "0000000000000000 00000000 "
	textVector   = textIO + "0000000000000000 Pages:2 PageSize:2 "
	textMessage  = "Immediate:4 Cookie:8 "
	textBlock    = "IosMh:4 IosVa:8 "
)

// answer follows the text.
func (s *textServer) answer(c *rawConn, msg []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	opcode := msg[4]
	s.asked[opcode]++
	if opcode != 6 {
		s.f.Set("Seq", 2, s.next)
		s.next++
	}
	switch opcode {
	case 6:
		s.auth(c, msg)
	case 7:
		if s.match(textRegister, msg) {
			s.send(c, "Cookie 03000000 00000000")
		}
	case 4, 5:
		if s.match("30000000 0"+string('0'+opcode)+" "+textControl, msg) {
			s.send(c, "Cookie 00000000 00000000")
		}
	case 9:
		if s.match(textWakeUp, msg) {
			s.wakeUp(c)
		}
	default:
		s.posted++
		s.io(c, msg)
	}
	return true
}

// auth checks the signature, and answers with the server's parameters.
func (s *textServer) auth(c *rawConn, msg []byte) {
	s.rawServer.mu.Lock()
	s.f["SKey"], s.f["CKey"] = s.serverKey[:], s.clientKey[:]
	s.rawServer.mu.Unlock()
	if !s.match(textAuth, msg) {
		return
	}
	want := md5.Sum(slices.Concat(msg[48:len(msg)-19], []byte{0}))
	if !bytes.Equal(s.f["MD5"], want[:]) {
		s.t.Error("the client's signature is wrong")
	}
	s.f["Sid"] = []byte("session!")
	params := "4C57494F 0110 0800 0020 0100 00000800 10000000 00200000 3000 2000 0000 01 10 CKey 02 08 Sid "
	unsigned, err := s.f.Make(params + "00")
	if err != nil {
		s.t.Error(err)
	}
	sum := md5.Sum(unsigned)
	s.f["Sum"] = sum[:]
	signed, err := s.f.Make(params + "03 10 Sum 00")
	if err != nil {
		s.t.Error(err)
	}
	c.write(s.f.Uint("Va"), uint32(s.f.Uint("Mh")), signed)
	s.send(c, "Cookie 55000000 00000000")
}

// wakeUp answers at once if the client has missed a completion, else with the next one.
func (s *textServer) wakeUp(c *rawConn) {
	if s.posted-s.missed < int(s.f.Uint("P")) {
		s.send(c, "Cookie 00000000 00000000")
		return
	}
	s.armed = s.f["Cookie"]
}

// io does a request and answers it, as its Flags say.
func (s *textServer) io(c *rawConn, msg []byte) {
	rest := msg[48:]
	template, ok := map[byte]string{0: textRead, 1: textWrite, 2: textVector, 3: textVector}[msg[4]]
	if !ok {
		s.t.Errorf("opcode %d", msg[4])
		return
	}
	how := textMessage
	if msg[5]&0x80 == 0 {
		how = textBlock
	}
	if !s.match(template+how, msg[:48]) {
		return
	}
	var n uint64
	if msg[4]&1 == 0 {
		n = s.read(c, rest)
	} else {
		n = s.write(msg[4], msg[5], rest)
	}
	status := uint64(0)
	if n == 0 {
		status = 0xC0000011
	}
	s.f.Set("Information", 4, n)
	s.f.Set("Status", 4, status)
	if how == textMessage {
		s.send(c, "Cookie Information Status")
	} else {
		block, _ := s.f.Make("Information Status")
		c.write(s.f.Uint("IosVa"), uint32(s.f.Uint("IosMh")), block)
	}
	s.missed++
	if s.armed != nil {
		s.f["Cookie"], s.armed = s.armed, nil
		s.send(c, "Cookie 00000000 00000000")
	}
}

// read sends data of the file to where it is to go, at most 64 KiB at a time.
func (s *textServer) read(c *rawConn, regions []byte) uint64 {
	length, off := s.f.Uint("Length"), s.f.Uint("Offset")
	if s.f.Uint("Opcode") == 0 && (length > 512<<10 || len(regions) != 0) {
		s.t.Errorf("a READ of %d bytes", length)
	}
	if off >= uint64(len(s.data)) {
		return 0
	}
	p := s.data[off:][:min(length, uint64(len(s.data))-off)]
	if s.f.Uint("Opcode") == 0 {
		at := s.f.Uint("Va")
		for part := range slices.Chunk(p, 64<<10) {
			c.write(at, uint32(s.f.Uint("Mh")), slices.Clip(part))
			at += uint64(len(part))
		}
		return uint64(len(p))
	}
	if n := int(s.f.Uint("Pages")); len(regions) != 16*n || n > 512 {
		s.t.Errorf("%d pages in %d bytes", n, len(regions))
	}
	rest := p
	for r := regions; len(r) > 0 && len(rest) > 0; r = r[16:] {
		n := min(int(binary.LittleEndian.Uint32(r[12:])), len(rest))
		c.write(binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint32(r[8:]), slices.Clip(rest[:n]))
		rest = rest[n:]
	}
	return uint64(len(p))
}

// write puts data into the file; of a collapsed write, over and over.
func (s *textServer) write(opcode, flags byte, p []byte) uint64 {
	length, off := int(s.f.Uint("Length")), int(s.f.Uint("Offset"))
	if len(p)+48 > 8<<10 {
		s.t.Errorf("a message of %d bytes; the server has posted 8 KiB", len(p)+48)
	}
	if opcode == 3 && flags&0x20 != 0 {
		pages := (length + 4095) / 4096
		if len(p) != min(length, 4096) || int(s.f.Uint("Pages")) != pages || s.f.Uint("PageSize") != 4096 {
			s.t.Errorf("collapsed: %d bytes, %d pages of %d, carry %d", length, s.f.Uint("Pages"), s.f.Uint("PageSize"), len(p))
		}
		p = bytes.Repeat(p, pages)[:length]
	}
	if len(p) != length {
		s.t.Errorf("a write of %d bytes carries %d", length, len(p))
	}
	s.data = append(s.data, make([]byte, max(0, off+length-len(s.data)))...)
	copy(s.data[off:], p)
	return uint64(length)
}

// The client works with a server that knows nothing but the text, and has the values that
// are depicted there, if MD5 alone is allowed: every message, in both modes, and right byte for
// byte.
//
// Source: [LWIO §Connection Authentication], [LWIO §File Registration], [LWIO §Read], [LWIO §Write], [LWIO §Vectored Read],
// [LWIO §Vectored Write], [LWIO §Wakeup], [LWIO §Close], [LWIO §Cancel], [OP-11], [OP-12], [OP-21], [OP-23], [OP-28], [OP-45],
// [OP-46b], [OP-47], [OP-60], [OP-61b], [OP-75], [OP-76], [OP-80], [OP-89], [OP-93a]
func TestClientWorksWithServerOfTheText(t *testing.T) { onEach(t, testClientWorksWithServerOfTheText) }

func testClientWorksWithServerOfTheText(t *testing.T, on string) {
	for _, mode := range []base.CompletionMode{base.Interrupt, base.Polling, base.Adaptive} {
		t.Run(mode.String(), func(t *testing.T) { talkText(t, on, mode) })
	}
}

func talkText(t *testing.T, on string, mode base.CompletionMode) {
	want := pattern(2 << 20)
	s := newTextServer(t, on, mode, bytes.Clone(want))
	c := s.connect(base.Config{Credits: 32, MaxRDMAWindowSize: 64 << 10, AllowMD5: true, ReconnectTimeout: -1})
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|Unbuffered, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want)+1)
	for _, n := range []int{1, 1000, 1024, 1025, 8192, 64 << 10, 512 << 10, 512<<10 + 1, len(want) + 1} {
		m, err := f.ReadAt(got[:n], 0)
		if m != min(n, len(want)) || (err != nil) != (n > len(want)) || !bytes.Equal(got[:m], want[:m]) {
			t.Fatalf("read of %d: %d, %v", n, m, err)
		}
	}
	clear(got)
	if n, err := f.ReadVec(t.Context(), cut(got[:100*4096], 4096), 4096); n != 100*4096 || err != nil || !bytes.Equal(got[:n], want[4096:][:n]) {
		t.Fatalf("vectored read: %d, %v", n, err)
	}
	source := pattern(300_000)
	slices.Reverse(source)
	for _, n := range []int{1, 4096, 8144, 8192, 100_000} {
		if m, err := f.WriteAt(source[:n], int64(n)); m != n || err != nil {
			t.Fatalf("write of %d: %d, %v", n, m, err)
		}
		copy(want[n:], source[:n])
	}
	if n, err := f.WriteVec(t.Context(), cut(source[:30_000], 1000), 500_000); n != 30_000 || err != nil {
		t.Fatalf("vectored write: %d, %v", n, err)
	}
	copy(want[500_000:], source[:30_000])
	if n, err := f.WriteSame(t.Context(), source[:4096], 600_001, 600_000); n != 600_000 || err != nil {
		t.Fatalf("collapsed write: %d, %v", n, err)
	}
	copy(want[600_001:], bytes.Repeat(source[:4096], 147)[:600_000])
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.asked[4] == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.data, want) {
		t.Error("wrong bytes at the server")
	}
	for _, opcode := range []byte{0, 1, 2, 3, 4, 6, 7} {
		if s.asked[opcode] == 0 {
			t.Errorf("the client sent nothing with opcode %d", opcode)
		}
	}
	if st := c.Stats(); st.Lost != 0 || st.SMB != (base.Traffic{}) || !c.Transport().RDMA() {
		t.Errorf("stats %+v, transport %v", st, c.Transport())
	}
}

// A server of the text sees no option of sealed or of bound connections. A client that requires encryption
// sends it no AUTH at all, also if MD5 alone is allowed.
//
// Source: [OP-46], [OP-46c], [OP-114b]
func TestServerOfTheTextSeesNoBindingAndNoSeal(t *testing.T) {
	onEach(t, testServerOfTheTextSeesNoBindingAndNoSeal)
}

func testServerOfTheTextSeesNoBindingAndNoSeal(t *testing.T, on string) {
	for _, encrypted := range []bool{false, true} {
		s := newRawServer(t, on, newFakeShare())
		s.textOnly = true
		var options []wire.AuthParams
		s.message = func(_ *rawConn, msg []byte) bool {
			if len(msg) > wire.HeaderSize && wire.Opcode(msg[4]) == wire.OpAuth {
				p, err := wire.DecodeAuthParams(msg[wire.HeaderSize:])
				if err != nil {
					t.Error(err)
				}
				options = append(options, p)
			}
			return false
		}
		c, err := s.dial(&base.Config{AllowMD5: true, RequireEncryption: encrypted})
		if err != nil {
			t.Fatal(err)
		}
		rdma := c.Transport().RDMA()
		s.Close() // ends the goroutine that appends
		sealable := encrypted && on == "iwarp"
		if rdma == sealable || len(options) == 0 != sealable {
			t.Errorf("encryption required %v: RDMA %v, %d AUTHs", encrypted, rdma, len(options))
		}
		for _, p := range options {
			if p.Binding != nil || p.Seal != 0 {
				t.Errorf("encryption required %v: the server sees the binding %x, and %#x as suites", encrypted, p.Binding, p.Seal)
			}
		}
	}
}
