package nbd

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Source: [NBD §Option types], [NBD §Option reply types]
func TestRepliesToEachOption(t *testing.T) {
	r := start(t, rigConfig{names: []string{"other"}})
	// refused is the answer of an error without its text.
	refused := func(option, reply string) string { return repMagic + option + " " + reply + " Length:4" }
	for _, c := range []struct {
		name, send, want string
	}{
		{"list", optMagic + "00000003 00000000",
			repMagic + "00000003 00000002 00000008 00000004 6469736b " +
				repMagic + "00000003 00000002 00000009 00000005 6f74686572 " +
				repMagic + "00000003 00000001 00000000"},
		{"list with data", optMagic + "00000003 00000001 00", refused("00000003", "80000003")},
		{"structured replies", optStructured, repStructured},
		{"structured replies with data", optMagic + "00000008 00000002 0000", refused("00000008", "80000003")},
		{"information", optMagic + "00000006 0000000a 00000004 6469736b 0000",
			repMagic + "00000006 00000003 0000000c 0000 0000000000100000 0d4d " + // without structured replies
				repMagic + "00000006 00000003 0000000e 0003 00000001 00001000 02000000 " +
				repMagic + "00000006 00000001 00000000"},
		{"information about the default export, with its name", optMagic + "00000006 00000008 00000000 0001 0001",
			repMagic + "00000006 00000003 0000000c 0000 0000000000100000 0d4d " +
				repMagic + "00000006 00000003 0000000e 0003 00000001 00001000 02000000 " +
				repMagic + "00000006 00000003 00000006 0001 6469736b " +
				repMagic + "00000006 00000001 00000000"},
		{"information that is malformed", optMagic + "00000006 00000003 000000", refused("00000006", "80000003")},
		{"information about no export", optMagic + "00000006 00000007 00000001 78 0000", refused("00000006", "80000006")},
		{"go to no export", optMagic + "00000007 00000007 00000001 78 0000", refused("00000007", "80000006")},
		{"TLS", optMagic + "00000005 00000000", refused("00000005", "80000002")},
		{"contexts without structured replies", optMagic + "00000009 00000008 00000000 00000000", refused("00000009", "80000003")},
		{"withdrawn option", optMagic + "00000004 00000000", refused("00000004", "80000001")},
		{"unknown option with data", optMagic + "00000063 00000004 01020304", refused("00000063", "80000001")},
		{"too much data", optMagic + "00000003 00010000 " + strings.Repeat("00", 0x10000), refused("00000003", "80000009")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := r.connect(t).greet()
			for range 2 { // the connection goes on
				p.send(c.send)
				p.want(c.want)
				if n := p.f["Length"]; n != nil {
					p.read(int(n[2])<<8 | int(n[3]))
				}
			}
			p.send(optMagic + "00000002 00000000")
			p.want(repMagic + "00000002 00000001 00000000")
			p.wantEnd()
		})
	}
}

// There is no metadata context, and that is no error.
//
// Source: [NBD §Metadata querying]
func TestNoMetaContext(t *testing.T) {
	p := start(t, rigConfig{}).connect(t).greet()
	p.send(optStructured)
	p.want(repStructured)
	for _, option := range []string{"00000009", "0000000a"} {
		p.send(optMagic + option + " 0000001f 00000004 6469736b 00000001 0000000f " + hexOf("base:allocation"))
		p.want(repMagic + option + " 00000001 00000000")
	}
	p.choose(false)
	p.send("25609513 0000 0007 0000000000000001 0000000000000000 00000200")
	p.want("668e33ef 0001 8001 0000000000000001 Length:4 00000016 Text:2")
}

// Source: [NBD §Newstyle negotiation]
func TestExportName(t *testing.T) {
	r := start(t, rigConfig{})
	for _, c := range []struct{ flags, name, want string }{
		{"00000003", "disk", "0000000000100000 0d4d"},
		{"00000001", "disk", "0000000000100000 0d4d " + strings.Repeat("00", 124)},
		{"00000000", "", "0000000000100000 0d4d " + strings.Repeat("00", 124)},
	} {
		p := r.connect(t)
		p.want("Greeting:18")
		p.send(c.flags)
		p.send(fmt.Sprintf("%s 00000001 %08x %s", optMagic, len(c.name), hexOf(c.name)))
		p.want(c.want)
		p.send("25609513 0000 0000 0000000000000001 0000000000000004 00000004")
		p.want("67446698 00000000 0000000000000001 " + fmt.Sprintf("%x", pattern(8)[4:]))
	}
	p := r.connect(t).greet()
	p.send(optMagic + "00000001 00000001 78")
	p.wantEnd()
}

// A read-only export says so.
//
// Source: [NBD §Transmission flags]
func TestReadOnlyFlags(t *testing.T) {
	p := start(t, rigConfig{readOnly: true}).transmit(t, true)
	if f := p.f["Flags"]; f[0] != 0x05 || f[1] != 0x87 {
		t.Errorf("flags %x", f)
	}
}

// A client that breaks the protocol loses its connection at once.
func TestHostileHandshakes(t *testing.T) {
	r := start(t, rigConfig{})
	for name, send := range map[string]string{
		"unknown client flag":  "80000003",
		"option without magic": "00000003 49484156454f5055 00000003 00000000",
		"gigabytes of data":    "00000003 " + optMagic + "00000003 ffffffff",
		"more than is skipped": "00000003 " + optMagic + "00000063 00100001",
	} {
		t.Run(name, func(t *testing.T) {
			p := r.connect(t)
			p.want("Greeting:18")
			p.send(send)
			p.wantEnd()
		})
	}
}

// A client cannot negotiate for ever.
func TestFloodOfOptionsEnds(t *testing.T) {
	p := start(t, rigConfig{}).connect(t).greet()
	for range maxOptions {
		p.send(optStructured)
		p.want(repStructured)
	}
	p.wantEnd()
}

// A silent client loses its connection, and so makes room for another one.
func TestSilentClientMakesRoom(t *testing.T) {
	r := start(t, rigConfig{server: Config{MaxConnections: 1, HandshakeTimeout: 20 * time.Millisecond}})
	for range 3 {
		p := r.connect(t)
		if b, err := io.ReadAll(p); len(b) > 18 || isTimeout(err) {
			t.Errorf("%x, %v", b, err)
		}
	}
}

// Each prefix of a negotiation, cut by the end of the connection, ends it at the server too.
func TestHandshakeCutAnywhere(t *testing.T) {
	r := start(t, rigConfig{})
	whole := "00000003" + strings.ReplaceAll(optStructured+optMagic+"000000070000000a000000046469736b0000", " ", "")
	for n := 0; n <= len(whole); n += 2 {
		p := r.connect(t)
		p.send(whole[:n])
		if err := p.Conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, p); err != nil {
			t.Errorf("%d bytes: %v", n/2, err)
		}
	}
}

// Source: [NBD §TLS support]
func TestTLSIsRequired(t *testing.T) {
	server, client := certificates(t)
	r := start(t, rigConfig{server: Config{TLS: server}})
	p := r.connect(t).greet()
	for _, option := range []string{"00000003", "00000006", "00000007", "00000008", "0000000a"} {
		p.send(optMagic + option + " 00000000")
		p.want(repMagic + option + " 80000005 0000000f Text:15")
	}
	p.send(optStructured) // does not count after TLS
	p.want(repMagic + "00000008 80000005 0000000f Text:15")
	p.secure(client)
	p.send(optMagic + "00000005 00000000")
	p.want(repMagic + "00000005 80000003 Length:4")
	p.read(int(p.f["Length"][3]))
	p.choose(false)
	if f := p.f["Flags"]; f[1]&0x80 != 0 {
		t.Errorf("flags %x: structured replies were not negotiated", f)
	}
	p.send("25609513 0000 0000 0000000000000001 0000000000000000 00000004")
	p.want("67446698 00000000 0000000000000001 00000000")
	p = r.connect(t).greet()
	p.send(optMagic + "00000001 00000004 6469736b")
	p.wantEnd()
	p = r.connect(t).greet()
	p.send(optMagic + "00000002 00000000")
	p.want(repMagic + "00000002 00000001 00000000")
}

// A client without a certificate of the authority is refused.
func TestClientNeedsCertificate(t *testing.T) {
	server, client := certificates(t)
	r := start(t, rigConfig{server: Config{TLS: server}})
	without := client.Clone()
	without.Certificates = nil
	p := r.connect(t).greet()
	p.send(optMagic + "00000005 00000000")
	p.want(repMagic + "00000005 00000001 00000000")
	c := tls.Client(p.Conn, without)
	if err := c.Handshake(); err == nil { // TLS 1.3 reports the refusal at the first read
		if _, err = c.Read(make([]byte, 1)); err == nil {
			t.Error("the client was not refused")
		}
	}
}

// Bytes behind OptStartTLS are not options: they would come from before TLS.
func TestPlainTextBehindStartTLSIsNoOption(t *testing.T) {
	server, _ := certificates(t)
	r := start(t, rigConfig{server: Config{TLS: server}})
	p := r.connect(t).greet()
	p.send(optMagic + "00000005 00000000 " + optMagic + "00000003 00000000")
	p.want(repMagic + "00000005 00000001 00000000")
	b, err := io.ReadAll(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 7 || len(b) > 0 && b[0] != 21 { // an alert of TLS
		t.Errorf("%x", b)
	}
}
