package server

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf16"

	"lwio/internal/test/hexmsg"
	"lwio/rdma"
	"lwio/vfs"
)

// textClient is a client that goes by the text alone, with the values that are depicted
// there, byte for byte. It shares no code with the server but the provider.
type textClient struct {
	*rawClient
	hexmsg.Fields
	sequence uint64
}

// units returns a name in a field of n UTF-16 units.
func units(s string, n int) []byte {
	b := make([]byte, 2*n)
	for i, u := range utf16.Encode([]rune(s)) {
		binary.LittleEndian.PutUint16(b[2*i:], u)
	}
	return b
}

func (c *textClient) make(template string) []byte {
	c.t.Helper()
	b, err := c.Make(template)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *textClient) match(template string, b []byte) {
	c.t.Helper()
	if err := c.Match(template, b); err != nil {
		c.t.Fatal(err)
	}
}

// say sends a message with the next Sequence.
func (c *textClient) say(template string, body ...byte) {
	c.t.Helper()
	c.Set("Seq", 2, c.sequence)
	c.sequence++
	c.raw(append(c.make(template), body...))
}

// hear compares the next status response.
func (c *textClient) hear(template string) {
	c.t.Helper()
	c.match(template, c.reply().AppendTo(nil))
}

// see waits for a status block and compares it.
func (c *textClient) see(template string) {
	c.t.Helper()
	for {
		// The answer to a message follows all data that was placed before.
		c.say("30000000 05 80 00 FF 0000 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 7777000000000000")
		c.hear("7777000000000000 00000000 280100C0")
		block := c.in.Bytes()[blockAt:][:8]
		if binary.LittleEndian.Uint32(block[4:]) != 0x103 {
			c.match(template, block)
			copy(block, []byte{0xFF, 0xFF, 0xFF, 0xFF, 3, 1, 0, 0})
			return
		}
	}
}

// blockAt is where the client has its status block, regionsAt where its pages for
// vectored reads begin.
const (
	blockAt   = 3 << 20
	regionsAt = 1 << 20
)

// connectText negotiates, connects and authenticates.
func connectText(t *testing.T, v *env, on string) *textClient {
	f := hexmsg.Fields{"Client": units("CLIENT", 256), "Server": units("here", 256), "Fabric": units(on, 64), "CKey": []byte("0123456789abcdef")}
	request, err := f.Make("4C57494F 01100000 FE00 A202 Client CKey FFFF 0100 Fabric 0000")
	if err != nil {
		t.Fatal(err)
	}
	response, err := v.e.association.Negotiate(context.Background(), v.sess, v.sess.app, request, 0xFFFF)
	if err != nil {
		t.Fatal(err)
	}
	f.Set("Len", 2, uint64(len(response)))
	if err := f.Match("4C57494F 01100000 FE00 Len Server SKey:16 0100 Fabric 0100 HostLen:2 PortLen:2", response[:len(response)-v.addressLen()]); err != nil {
		t.Fatal(err)
	}
	if int(f.Uint("HostLen")+f.Uint("PortLen")) != v.addressLen() {
		t.Fatalf("an address of %d bytes", v.addressLen())
	}
	c := &textClient{rawClient: v.connect(&negotiated{addr: v.e.fabrics[0].addr}), Fields: f}
	to := c.in.RemoteAddr()
	f.Set("Va", 8, to.Addr)
	f.Set("Mh", 4, uint64(to.Token))
	f.Set("Ios", 8, to.Addr+blockAt)
	copy(c.in.Bytes()[blockAt:], []byte{0xFF, 0xFF, 0xFF, 0xFF, 3, 1, 0, 0})
	c.authText()
	return c
}

// addressLen is the size of an address of the server's first provider in NEGOTIATE.
func (v *env) addressLen() int {
	if at := v.e.fabrics[0].addr; at.Name != "" {
		return 16 + len(at.Name)
	}
	return 2
}

// authText authenticates with MD5 alone: an 8 KiB page, a window of 64 KiB, messages of
// 1 KiB and 16 bytes, 32 credits.
func (c *textClient) authText() {
	c.t.Helper()
	const fixed = "4C57494F 0110 0800 0020 0000 00000100 00040000 10000000 3000 2000 0000"
	sum := md5.Sum(c.make(fixed + " 01 10 SKey 00"))
	c.Fields["MD5"] = sum[:]
	c.raw(c.make("73000000 06 80 00 FF 0000 0000 00000000 0000000000000000 Va Mh 00000000 AAAAAAAAAAAAAAAA " +
		fixed + " 01 10 SKey 03 10 MD5 00"))
	c.match("AAAAAAAAAAAAAAAA 55000000 00000000", c.reply().AppendTo(nil))
	// The server: 4 KiB pages, a window of 512 KiB, messages of 16 bytes and 8 KiB.
	params := bytes.Clone(c.in.Bytes()[:0x55-8])
	const served = "4C57494F 0110 0800 0010 0100 00000800 10000000 00200000 3000 2000 0000 01 10 CKey 02 08 Sid:8 03 10 Sum:16 00"
	c.match(served, params)
	want := md5.Sum(slices.Concat(params[:len(params)-19], []byte{0}))
	if !bytes.Equal(c.Fields["Sum"], want[:]) {
		c.t.Fatal("the server's signature is wrong")
	}
	c.sequence = 1
}

// askToRegister sends REGISTER of an open.
func (c *textClient) askToRegister(o *vfs.Open) {
	c.t.Helper()
	key := o.ResumeKey()
	c.Fields["Key"] = key[:]
	c.Set("Options", 4, uint64(o.Options()))
	c.say("54000000 07 80 00 FF 0000 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 BBBBBBBBBBBBBBBB Key Sid Options")
}

// registerText registers an open. name stands for its file id in later messages.
func (c *textClient) registerText(name string, o *vfs.Open) {
	c.t.Helper()
	c.askToRegister(o)
	c.hear("BBBBBBBBBBBBBBBB Got:4 00000000")
	c.Fields[name] = c.Fields["Got"][:2]
}

// A client that knows only the text, and has the values depicted there, is served if MD5 alone is
// allowed: every message, in both modes.
//
// Source: [LWIO §Network Discovery] [LWIO §Connection Authentication] [LWIO §File Registration] [LWIO §Read] [LWIO §Write]
// [LWIO §Vectored Read] [LWIO §Vectored Write] [LWIO §Wakeup] [LWIO §Close] [LWIO §Cancel]
// [OP-11] [OP-12] [OP-28] [OP-45] [OP-46b] [OP-47] [OP-60] [OP-61] [OP-75] [OP-80] [OP-81] [OP-89]
func TestClientOfTheTextIsServed(t *testing.T) { onEach(t, testClientOfTheTextIsServed) }

func testClientOfTheTextIsServed(t *testing.T, on string) {
	w := new(watch)
	v := newEnv(t, envConfig{on: on, allowMD5: true, limits: Limits{MaxRecvBufferSize: 8 << 10, MaxRDMAWindowSize: 512 << 10}, provider: w.wrap(providers[on](), "server")})
	data := content(1 << 20)
	buffered := v.file("a", data)
	c := connectText(t, v, on)
	c.registerText("Fid", buffered)
	c.registerText("Unbuffered", v.open("a", vfs.ReadData|vfs.WriteData, vfs.NoIntermediateBuffering, v.sess))
	c.readText(data)
	c.vecReadText(data)
	c.writeText(data)
	c.vecWriteText(data)
	if got, err := os.ReadFile(filepath.Join(v.dir, "a")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file differs, %v", err)
	}
	// INTERRUPT with a completion that was missed, CANCEL, CLOSE, and requests after it.
	c.say("30000000 09 C0 01 FF 0000 Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 0900000000000000")
	c.hear("0900000000000000 00000000 00000000")
	c.say("30000000 05 80 00 FF Fid Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 0A00000000000000")
	c.hear("0A00000000000000 00000000 00000000")
	c.say("30000000 04 80 00 FF Fid Seq 00000000 0000000000000000 0000000000000000 00000000 00000000 0B00000000000000")
	c.hear("0B00000000000000 00000000 00000000")
	c.say("0A000000 00 80 00 FF Fid Seq 00000000 0000000000000000 Va Mh 00000000 0C00000000000000")
	c.hear("0C00000000000000 00000000 280100C0")
	for _, p := range w.seen() {
		if p.op == rdma.OpWrite && p.size > 64<<10 {
			t.Errorf("an RDMA write of %d bytes; the client takes 64 KiB", p.size)
		}
	}
}

// A client of the text gets the answer of the text to its AUTH, without an option of ours, also from a
// server that seals connections or requires it. A file that requires encryption is refused then.
//
// Source: [OP-46] [OP-46c] [OP-114] [OP-114b]
func TestClientOfTheTextSeesNoOptionOfOurs(t *testing.T) {
	onEach(t, testClientOfTheTextSeesNoOptionOfOurs)
}

func testClientOfTheTextSeesNoOptionOfOurs(t *testing.T, on string) {
	for _, e := range []Encryption{EncryptionOff, EncryptionOffered, EncryptionRequired} {
		t.Run(e.String(), func(t *testing.T) {
			v := newEnv(t, envConfig{on: on, allowMD5: true, encryption: e, limits: Limits{MaxRecvBufferSize: 8 << 10, MaxRDMAWindowSize: 512 << 10}})
			o := v.file("a", content(100))
			c := connectText(t, v, on) // compares all bytes of the answer
			if e == EncryptionRequired && on == "iwarp" {
				c.askToRegister(o)
				c.hear("BBBBBBBBBBBBBBBB 00000000 220000C0")
				return
			}
			c.registerText("Fid", o)
		})
	}
}

func (c *textClient) wantBytes(at int, want []byte) {
	c.t.Helper()
	if !bytes.Equal(c.in.Bytes()[at:][:len(want)], want) {
		c.t.Fatalf("%d bytes read differ", len(want))
	}
}

func (c *textClient) readText(data []byte) {
	c.t.Helper()
	c.say("E8030000 00 80 00 FF Fid Seq 00000000 0500000000000000 Va Mh 44332211 0100000000000000")
	c.hear("0100000000000000 E8030000 00000000")
	c.wantBytes(0, data[5:1005])
	c.say("00000800 00 00 01 FF Fid Seq 00000000 0000000000000000 Va Mh Mh Ios") // 512 KiB
	c.see("00000800 00000000")
	c.wantBytes(0, data[:512<<10])
	c.say("0A000000 00 80 00 FF Fid Seq 00000000 FBFF0F0000000000 Va Mh 00000000 0200000000000000") // 5 bytes are left
	c.hear("0200000000000000 05000000 00000000")
	c.say("0A000000 00 00 00 FF Fid Seq 00000000 0000100000000000 Va Mh Mh Ios")
	c.see("00000000 110000C0")
}

func (c *textClient) vecReadText(data []byte) {
	c.t.Helper()
	c.Set("Va1", 8, c.Uint("Va")+regionsAt)
	c.Set("Va2", 8, c.Uint("Va")+regionsAt+100_000)
	c.say("64200000 02 80 00 FF Fid Seq 00000000 0700000000000000 0000000000000000 0200 0020 00000000 0300000000000000" +
		" Va1 Mh 00200000 Va2 Mh 64000000") // a page of 8 KiB and 100 bytes
	c.hear("0300000000000000 64200000 00000000")
	c.wantBytes(regionsAt, data[7:][:8192])
	c.wantBytes(regionsAt+100_000, data[7+8192:][:100])
	c.say("00220000 02 00 00 FF Unbuffered Seq 00000000 0000000000000000 0000000000000000 0200 0020 Mh Ios" +
		" Va2 Mh 00200000 Va1 Mh 00020000") // whole sectors
	c.see("00220000 00000000")
	c.wantBytes(regionsAt+100_000, data[:8192])
	c.wantBytes(regionsAt, data[8192:][:512])
}

func (c *textClient) writeText(data []byte) {
	c.t.Helper()
	body := content(8192)
	slices.Reverse(body)
	// As much as fits into 8 KiB with the header, and the 8 KiB of the formula.
	c.say("D01F0000 01 80 00 FF Fid Seq 00000000 0300000000000000 0000000000000000 00000000 00000000 0400000000000000", body[:8144]...)
	c.hear("0400000000000000 D01F0000 00000000")
	copy(data[3:], body[:8144])
	c.say("00200000 01 00 00 FF Fid Seq 00000000 0080000000000000 0000000000000000 00000000 Mh Ios", body...)
	c.see("00200000 00000000")
	copy(data[0x8000:], body)
}

func (c *textClient) vecWriteText(data []byte) {
	c.t.Helper()
	body := content(8192)
	slices.Reverse(body)
	c.say("64000000 03 80 00 FF Fid Seq 00000000 0100000000000000 0000000000000000 0100 0020 00000000 0500000000000000", body[:100]...)
	c.hear("0500000000000000 64000000 00000000")
	copy(data[1:], body[:100])
	c.say("64000000 03 00 00 FF Fid Seq 00000000 C800000000000000 0000000000000000 0100 0020 Mh Ios", body[:100]...)
	c.see("64000000 00000000")
	copy(data[200:], body[:100])
	// Collapsed: 512 KiB, and 20,000 bytes, of one page of 8 KiB.
	c.say("00000800 03 A0 00 FF Unbuffered Seq 00000000 0000020000000000 0000000000000000 4000 0020 00000000 0600000000000000", body...)
	c.hear("0600000000000000 00000800 00000000")
	copy(data[128<<10:], bytes.Repeat(body, 64))
	c.say("204E0000 03 20 00 FF Unbuffered Seq 00000000 0F00000000000000 0000000000000000 0300 0020 Mh Ios", body...)
	c.see("204E0000 00000000")
	copy(data[15:], bytes.Repeat(body, 3)[:20_000])
	// A buffered file has none.
	c.say("204E0000 03 A0 00 FF Fid Seq 00000000 0F00000000000000 0000000000000000 0300 0020 00000000 0700000000000000", body...)
	c.hear("0700000000000000 00000000 0D0000C0")
}
