package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio"
	"lwio/internal/ntstatus"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/vfs"
)

// sealedAuth asks for a sealed connection.
var sealedAuth = authOptions{mutate: func(p *wire.AuthParams) { p.Seal = wire.SealAES128GCM }}

// sealedClient returns a client with a sealed connection.
func (v *env) sealedClient() *rawClient {
	v.t.Helper()
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, sealedAuth)
	if c.params.Seal != wire.SealAES128GCM {
		v.t.Fatalf("the server seals with %#x", c.params.Seal)
	}
	return c
}

// opened returns the data of the last answer, which was placed in the in region at a place.
func (c *rawClient) opened(at int) []byte {
	c.t.Helper()
	d := c.data[len(c.data)-1]
	p := bytes.Clone(c.in.Bytes()[at:][:d.Length()])
	if err := c.opener.Data(&d, p); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// A sealed connection serves reads and writes of all sizes. The data travels sealed, and data of up
// to 16 bytes only with its message.
//
// Source: [OP-114b]
func TestSealedConnectionServesFiles(t *testing.T) {
	v := newEnv(t, envConfig{})
	data := content(300_000)
	o := v.file("a", data)
	c := v.sealedClient()
	fid := c.register(o)
	for _, n := range []int{1, 15, 16, 17, 4096, 65537, 300_000} {
		clear(c.in.Bytes()[:n])
		c.want(ntstatus.Success, uint32(n), c.readHeader(fid, 0, uint32(n), 0), nil)
		if placed := c.in.Bytes()[:n]; n <= 16 && !bytes.Equal(placed, make([]byte, n)) || n > 32 && bytes.Contains(placed, data[:16]) {
			t.Errorf("%d bytes: plain data was placed", n)
		}
		if !bytes.Equal(c.opened(0), data[:n]) {
			t.Errorf("%d bytes differ", n)
		}
	}
	c.want(ntstatus.Success, 10, c.readHeader(fid, 299_990, 100, 0), nil)
	if !bytes.Equal(c.opened(0), data[299_990:]) {
		t.Error("a short read differs")
	}
	c.want(ntstatus.EndOfFile, 0, c.readHeader(fid, 300_000, 100, 0), nil)
	for i, n := range []int{1, 16, 17, 5000, 64 << 10} {
		part := bytes.Repeat([]byte{byte(i + 1)}, n)
		c.want(ntstatus.Success, uint32(n), writeHeader(fid, uint64(7*i), n), part)
		copy(data[7*i:], part)
	}
	if got, err := os.ReadFile(filepath.Join(v.dir, "a")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file differs, %v", err)
	}
	h := c.readHeader(fid, 0, 512, 0)
	h.Opcode, h.NumPages, h.PageSize = wire.OpVecRead, 1, 512
	region := wire.RDMARegion{DataVa: h.DataVa, DataMh: h.DataMh, Length: 512}
	c.want(ntstatus.InvalidParameter, 0, h, region.AppendTo(nil))
	v.check(v.client())
}

// Each defect of a sealed message ends the connection, and no other.
//
// Source: [OP-114b]
func TestDefectiveSealedMessageEndsConnection(t *testing.T) {
	v := newEnv(t, envConfig{})
	other := v.sealedClient()
	cancel := controlHeader(wire.OpCancel, 0xFFFF)
	plain := cancel.AppendTo(nil)
	for name, send := range map[string]func(c *rawClient, fid uint16){
		"plain message": func(c *rawClient, _ uint16) { c.sealer = nil; c.raw(plain) },
		"changed record": func(c *rawClient, _ uint16) {
			b := c.sealed(plain)
			b[4] ^= 1
			c.sealer = nil
			c.raw(b)
		},
		"repeated record": func(c *rawClient, _ uint16) {
			h := cancel
			h.Cookie = 7
			b := c.sealed(h.AppendTo(nil))
			c.sealer = nil
			c.raw(b)
			c.reply()
			c.raw(b)
		},
		"changed data": func(c *rawClient, fid uint16) {
			h := writeHeader(fid, 0, 100)
			b := c.sealed(append(h.AppendTo(nil), make([]byte, 100)...))
			b[len(b)-1] ^= 1
			c.sealer = nil
			c.raw(b)
		},
		"less data": func(c *rawClient, fid uint16) {
			h := writeHeader(fid, 0, 100)
			b := c.sealed(append(h.AppendTo(nil), make([]byte, 100)...))
			c.sealer = nil
			c.raw(b[:len(b)-1])
		},
		"record cut off": func(c *rawClient, _ uint16) {
			b := c.sealed(plain)
			c.sealer = nil
			c.raw(b[:60])
		},
		"status block": func(c *rawClient, fid uint16) {
			h, _ := c.polledRead(fid)
			c.send(h, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v.in(t)
			c := v.sealedClient()
			fid := c.register(v.file("f", []byte("0000")))
			send(c, fid)
			c.wantCut()
			if got, err := os.ReadFile(filepath.Join(v.dir, "f")); err != nil || string(got) != "0000" {
				t.Errorf("the file is %q, %v", got, err)
			}
			other.want(ntstatus.FileClosed, 0, cancel, nil)
		})
	}
}

// A file of a share that requires encryption, and every file of a server that does, is refused over a
// connection that is neither sealed nor over a confidential provider.
//
// Source: [OP-114]
func TestRegisterNeedsRequiredEncryption(t *testing.T) {
	onEach(t, testRegisterNeedsRequiredEncryption)
}

func testRegisterNeedsRequiredEncryption(t *testing.T, on string) {
	for name, ec := range map[string]envConfig{
		"server": {on: on, encryption: EncryptionRequired}, "share": {on: on, requireEncryption: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newEnv(t, ec)
			o := v.file("a", []byte("secret"))
			c := v.client()
			h, body := c.registerMessage(o)
			if on == "iwarp" {
				c.want(ntstatus.AccessDenied, 0, h, body)
				sealed := v.sealedClient()
				sealed.want(ntstatus.Success, 6, sealed.readHeader(sealed.register(o), 0, 6, 0), nil)
				return
			}
			v.check(c)
		})
	}
}

// The server seals no connection with encryption off, or with an unknown suite, or without a keyed and
// bound AUTH, or over a confidential provider. The answer says so, and the connection is plain.
//
// Source: [OP-114b]
func TestServerAnswersWhetherItSeals(t *testing.T) { onEach(t, testServerAnswersWhetherItSeals) }

func testServerAnswersWhetherItSeals(t *testing.T, on string) {
	for name, tt := range map[string]struct {
		ec envConfig
		o  authOptions
	}{
		"off":           {envConfig{encryption: EncryptionOff}, sealedAuth},
		"unknown suite": {envConfig{}, authOptions{mutate: func(p *wire.AuthParams) { p.Seal = 0x80 }}},
		"not asked":     {envConfig{}, authOptions{}},
		"not bound":     {envConfig{allowMD5: true}, authOptions{unbound: true, mutate: sealedAuth.mutate}},
		"not keyed":     {envConfig{allowMD5: true}, authOptions{unkeyed: true, mutate: sealedAuth.mutate}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.ec.on = on
			v := newEnv(t, tt.ec)
			n := v.negotiate(v.sess)
			c := v.connect(n)
			c.auth(n, tt.o)
			if c.params.Seal != 0 {
				t.Errorf("the server seals with %#x", c.params.Seal)
			}
			v.check(c)
		})
	}
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, sealedAuth)
	if (c.params.Seal != 0) != (on == "iwarp") {
		t.Errorf("the server seals with %#x", c.params.Seal)
	}
	fid := c.register(v.open("check", vfs.ReadData|vfs.WriteData, 0, v.sess))
	c.want(ntstatus.Success, 3, writeHeader(fid, 0, 3), []byte("abc"))
}

// An operation that is used again does not repeat the descriptor of its last answer.
//
// Source: [OP-114b]
func TestSealedDescriptorOfAnswerIsReset(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.sealedClient()
	fid := c.register(v.file("a", content(4096)))
	for range 200 { // operations are used again
		c.want(ntstatus.Success, 4096, c.readHeader(fid, 0, 4096, 0), nil)
		c.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("xy"))
		if d := c.data[len(c.data)-1]; d != (seal.Descriptor{}) {
			t.Fatalf("the answer of a write has a descriptor of %d bytes", d.Length())
		}
	}
}

// A client ends a sealed connection by a message. A connection that ends without it, on the network or by a
// logoff, counts as lost.
//
// Source: [OP-114b]
func TestEndOfSealedConnectionIsProven(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(c *rawClient)
		lost int64
	}{
		"message": {func(c *rawClient) { c.send(controlHeader(wire.OpClose, wire.NoFid), nil) }, 0},
		"close":   {func(c *rawClient) { c.connector.Close() }, 1},
		"logoff":  {func(c *rawClient) { c.v.sess.logOff() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := newEnv(t, envConfig{})
			tt.end(v.sealedClient())
			eventually(t, "the connection is gone", v.deserted)
			if lost, cut := v.e.count.lost.Load(), v.e.count.cut.Load(); int64(lost) != tt.lost || cut != 0 {
				t.Errorf("%d connections are lost, %d cut", lost, cut)
			}
		})
	}
}

// A server whose key is used up ends the connection. The client makes another one, with new keys, and no
// call fails or gets wrong data.
//
// Source: [OP-114b]
func TestUsedUpKeyIsReplaced(t *testing.T) {
	p := newPair(t, "iwarp", Limits{})
	p.server.engine.keyLimit = 1 << 20
	c := p.dial(lwio.Config{RequireEncryption: true})
	data := content(200_000)
	f := p.file(c, "a", data)
	const reads = 20
	for range reads {
		p.wantRead(f, 0, data)
	}
	if n, least := c.Stats().Connects, uint64(reads*len(data)>>20); n <= least {
		t.Errorf("%d connections for %d bytes", n, reads*len(data))
	}
}
