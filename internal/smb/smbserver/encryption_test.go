package smbserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
)

// dialectCiphers are the dialects with their ciphers.
var dialectCiphers = []struct {
	dialect uint16
	cipher  smbauth.Cipher
}{
	{0x0300, smbauth.AES128CCM},
	{0x0302, smbauth.AES128CCM},
	{0x0311, smbauth.AES128CCM},
	{0x0311, smbauth.AES128GCM},
	{0x0311, smbauth.AES256CCM},
	{0x0311, smbauth.AES256GCM},
}

// Every cipher carries requests and responses of all lengths, single and compound, with
// credits, CANCEL and LOGOFF.
//
// Source: [MS-SMB2 3.3.5.2.1.1], [MS-SMB2 3.3.4.1.4]
func TestEncryptedSessionsDoAllThatSignedOnesDo(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, x := range dialectCiphers {
		t.Run(fmt.Sprintf("%#x %v", x.dialect, x.cipher), func(t *testing.T) {
			c := encrypted(t, addr, x.dialect, x.cipher)
			r := c.mustConnect("secret")
			if flags := le.Uint32(r.body[4:]); flags&0x8000 == 0 {
				t.Errorf("share flags %#x", flags)
			}
			id := c.mustCreate(rw("f"))
			for range 8 {
				c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
			}
			data := bytes.Repeat([]byte("secret"), 170<<10)
			c.send(c.charge(c.message(cmdWrite, writeBody(id, 3, data)), 16))
			if r := c.recv()[0]; r.status != 0 {
				t.Fatal(r.status)
			}
			c.send(c.charge(c.message(cmdRead, readBody(id, 3, uint32(len(data)), 0)), 16))
			if r := c.recv()[0]; r.status != 0 || !bytes.Equal(r.body[16:], data) {
				t.Fatalf("read: %v, %d bytes", r.status, len(r.body))
			}
			c.send(related(c.message(cmdCreate, rw("f").body()), c.message(cmdQueryInfo, queryBody(noID, 1, 5, 0, 100)),
				c.message(cmdClose, closeBody(noID, 0)))...)
			if all := c.recv(); len(all) != 3 || all[0].status != 0 || all[1].status != 0 || all[2].status != 0 {
				t.Errorf("compound: %v", all)
			}
			waiter := encrypted(t, addr, x.dialect, x.cipher)
			waiter.mustConnect("secret")
			other := waiter.mustCreate(rw("f"))
			c.want(ntstatus.Success, cmdLock, lockBody(id, element{0, 1, lockExclusive | lockNow}))
			message := waiter.pend(other, element{0, 1, lockExclusive})
			waiter.cancel(message, true)
			waiter.late(message, ntstatus.Cancelled)
			ss := s.session(c.session)
			c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
			<-ss.Done()
			c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
			c.wantCut() // the session, and its key, are gone
		})
	}
}

// A long response of an encrypted compound is a message of its own, and short ones share one.
//
// Source: [MS-SMB2 3.3.4.1.3], [MS-SMB2 3.3.4.1.4]
func TestEncryptedCompoundIsSplitAtLongResponses(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	c.mustConnect("data")
	id := c.mustCreate(rw("f"))
	for range 8 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, make([]byte, 65536)))
	for _, x := range []struct {
		reads  []uint32
		frames []int
	}{
		{[]uint32{100, 100, 100}, []int{3}},
		{[]uint32{100, 65536, 100}, []int{1, 1, 1}},
		{[]uint32{40000, 20000, 20000, 100}, []int{2, 2}},
	} {
		var msgs [][]byte
		for _, n := range x.reads {
			msgs = append(msgs, c.message(cmdRead, readBody(id, 0, n, 0)))
		}
		c.send(msgs...)
		var frames []int
		for got := 0; got < len(msgs); {
			all := c.recv()
			for i, r := range all {
				if want := x.reads[got+i]; r.status != 0 || le.Uint32(r.body[4:]) != want {
					t.Errorf("%v: response %d: %v, %d bytes", x.reads, got+i, r.status, le.Uint32(r.body[4:]))
				}
			}
			got += len(all)
			frames = append(frames, len(all))
		}
		if !slices.Equal(frames, x.frames) {
			t.Errorf("%v: responses in messages of %v, want %v", x.reads, frames, x.frames)
		}
	}
}

// The first cipher of the client that the server has is chosen.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 2.2.4.1.2]
func TestServerFollowsThePreferenceOfTheClient(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for _, x := range []struct {
		offer []smbauth.Cipher
		want  smbauth.Cipher
	}{
		{[]smbauth.Cipher{smbauth.AES256GCM, smbauth.AES128GCM}, smbauth.AES256GCM},
		{[]smbauth.Cipher{99, smbauth.AES128CCM, smbauth.AES128GCM}, smbauth.AES128CCM},
		{[]smbauth.Cipher{99}, smbauth.NoCipher},
	} {
		c := dial(t, addr)
		c.offer = x.offer
		if c.mustNegotiate(0x0311); c.cipher != x.want {
			t.Errorf("of %v the server chose %v", x.offer, c.cipher)
		}
		c.mustSetup(testUser, testPassword)
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	for name, change := range map[string]func(b []byte) []byte{
		"no cipher":    func(b []byte) []byte { b[len(b)-4] = 0; return b },
		"cut short":    func(b []byte) []byte { b[len(b)-4] = 9; return b },
		"two contexts": func(b []byte) []byte { return offerCiphers(b, 0x0311, []smbauth.Cipher{smbauth.AES128GCM}) },
	} {
		b := change(offerCiphers(negotiateBody(0x0311), 0x0311, []smbauth.Cipher{smbauth.AES128GCM}))
		if r := dial(t, addr).call(cmdNegotiate, b); r.status != ntstatus.InvalidParameter {
			t.Errorf("%s: %v", name, r.status)
		}
	}
}

// With encryption off, the server chooses no cipher, and no client can use a share that requires it.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.7]
func TestEncryptionOffChoosesNoCipher(t *testing.T) {
	_, addr, _ := testServer(t, func(c *Config) { c.Encryption = EncryptionOff })
	for _, x := range dialectCiphers {
		c := dial(t, addr)
		c.offer = []smbauth.Cipher{x.cipher}
		if r := c.mustNegotiate(x.dialect); c.cipher != smbauth.NoCipher || r.body[24]&0x40 != 0 {
			t.Errorf("%#x: cipher %v, capabilities %#x", x.dialect, c.cipher, le.Uint32(r.body[24:]))
		}
		c.mustSetup(testUser, testPassword)
		c.mustConnect("data")
		c.want(ntstatus.AccessDenied, cmdTreeConnect, connectBody("secret"))
	}
}

// A server that requires encryption refuses sessions without a cipher, and all requests of a
// session that are not encrypted, but not the set-up itself, which is signed.
//
// Source: [MS-SMB2 3.3.5.5], [MS-SMB2 3.3.5.2.9]
func TestServerThatRequiresEncryptionRefusesPlainRequests(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Encryption = EncryptionRequired })
	for _, d := range allDialects {
		c := dial(t, addr)
		c.mustNegotiate(d)
		c.want(ntstatus.AccessDenied, cmdSessionSetup, setupBody([]byte("x"), 0))
	}
	for _, x := range dialectCiphers {
		c := dial(t, addr)
		c.offer = []smbauth.Cipher{x.cipher}
		c.mustNegotiate(x.dialect)
		r := c.setup(testUser, testPassword, 0)
		if r.status != 0 || le.Uint16(r.body[2:]) != 4 || r.flags&8 == 0 {
			t.Fatalf("%#x: session set-up: %v, session flags %d, header flags %#x", x.dialect, r.status, le.Uint16(r.body[2:]), r.flags)
		}
		c.mustConnect("data")
		id := c.mustCreate(rw("f"))
		c.plain = true
		for cmd, body := range map[uint16][]byte{
			cmdEcho: {4, 0, 0, 0}, cmdTreeConnect: connectBody("data"), cmdRead: readBody(id, 0, 1, 0), cmdLogoff: {4, 0, 0, 0},
			cmdTreeDisconnect: {4, 0, 0, 0}, cmdClose: closeBody(id, 0),
		} {
			c.want(ntstatus.AccessDenied, cmd, body)
		}
		c.plain = false
		c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("x")))
		if r := c.setup(testUser, testPassword, 0); r.status != 0 {
			t.Errorf("%#x: authentication again: %v", x.dialect, r.status)
		}
		if ss := s.session(c.session); !ss.valid() {
			t.Error("a refused LOGOFF has ended the session")
		}
	}
}

// A CANCEL that is signed and not encrypted is ignored where encryption is required.
//
// Source: [MS-SMB2 3.3.5.16]
func TestPlainCancelIsIgnoredWhereEncryptionIsRequired(t *testing.T) {
	_, addr, _ := testServer(t, func(c *Config) { c.Encryption = EncryptionRequired })
	holder, c := encrypted(t, addr, 0x0311, smbauth.AES128GCM), encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	holder.mustConnect("data")
	c.mustConnect("data")
	held, id := holder.mustCreate(rw("f")), c.mustCreate(rw("f"))
	holder.want(ntstatus.Success, cmdLock, lockBody(held, element{0, 1, lockExclusive | lockNow}))
	message := c.pend(id, element{0, 1, lockExclusive})
	c.plain = true
	c.cancel(message, true)
	c.plain = false
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0}) // the CANCEL has been read
	holder.want(ntstatus.Success, cmdLock, lockBody(held, element{0, 1, lockUnlock}))
	c.late(message, ntstatus.Success)
}

// A share that requires encryption refuses requests that are not encrypted, also related ones
// of a compound; TREE_CONNECT tells the client. Other shares of the session are not affected.
//
// Source: [MS-SMB2 3.3.5.7], [MS-SMB2 3.3.5.2.11]
func TestShareThatRequiresEncryptionRefusesPlainRequests(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	login(t, addr, 0x0311).want(ntstatus.AccessDenied, cmdTreeConnect, connectBody("secret"))
	login(t, addr, 0x0210).want(ntstatus.AccessDenied, cmdTreeConnect, connectBody("secret"))
	c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	c.plain = true
	if r := c.mustConnect("data"); le.Uint32(r.body[4:])&0x8000 != 0 {
		t.Error("a share that does not require encryption asks for it")
	}
	c.mustCreate(rw("f"))
	if r := c.mustConnect("secret"); le.Uint32(r.body[4:])&0x8000 == 0 {
		t.Error("the client does not learn that it must encrypt")
	}
	c.want(ntstatus.AccessDenied, cmdCreate, rw("f").body())
	c.send(related(c.message(cmdCreate, rw("f").body()), c.message(cmdRead, readBody(noID, 0, 1, 0)))...)
	for _, r := range c.recv() {
		if r.status != ntstatus.AccessDenied {
			t.Errorf("%v in a compound", r.status)
		}
	}
	c.want(ntstatus.AccessDenied, cmdTreeDisconnect, []byte{4, 0, 0, 0})
	c.plain = false
	id := c.mustCreate(rw("f"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("x")))
	c.want(ntstatus.Success, cmdTreeDisconnect, []byte{4, 0, 0, 0})
}

// A message that cannot be decrypted, or whose contents do not belong to the session that has
// encrypted it, ends the connection: a client that meant it has lost its state, and an attacker
// gets one attempt.
//
// Source: [MS-SMB2 3.3.5.2.1.1]
func TestWrongEncryptionEndsTheConnection(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	before := s.Stats().BadSignatures
	echo := func(c *raw) []byte { return c.frame(c.message(cmdEcho, []byte{4, 0, 0, 0})) }
	changed := func(at int) func(c *raw) []byte {
		return func(c *raw) []byte {
			b := echo(c)
			b[4+at] ^= 1
			return b
		}
	}
	cases := map[string]func(c *raw) []byte{
		"signature":   changed(4),
		"nonce":       changed(20),
		"size":        changed(36),
		"reserved":    changed(40),
		"flags":       changed(42),
		"session":     changed(44),
		"message":     changed(60),
		"header only": func(c *raw) []byte { b := echo(c)[:4+52]; b[3] = 52; return b },
		"header cut":  func(c *raw) []byte { b := echo(c)[:4+51]; b[3] = 51; return b },
		"cut":         func(c *raw) []byte { b := echo(c); b[3]--; return b[:len(b)-1] },
		"longer":      func(c *raw) []byte { b := append(echo(c), 0); b[3]++; return b },
		"empty":       func(c *raw) []byte { return c.frame() },
		"replayed": func(c *raw) []byte {
			b := echo(c)
			c.write(b)
			c.recv()
			return b
		},
		"other key":      func(c *raw) []byte { c.out = smbauth.NewEncrypter(c.cipher, smbauth.CipherKey{1}); return echo(c) },
		"key of replies": func(c *raw) []byte { c.out = smbauth.NewEncrypter(c.cipher, c.keys.ServerToClient); return echo(c) },
		"twice encrypted": func(c *raw) []byte {
			return c.frame(echo(c)[4:])
		},
		"SMB 1 inside": func(c *raw) []byte { return c.frame([]byte("\xffSMB\x72" + string(make([]byte, 60)))) },
		"negotiation": func(c *raw) []byte {
			c.session, c.tree = 0, 0
			return c.frame(c.message(cmdNegotiate, negotiateBody(0x0311)))
		},
		"no session inside": func(c *raw) []byte { m := c.message(cmdEcho, []byte{4, 0, 0, 0}); clear(m[40:48]); return c.frame(m) },
	}
	for name, b := range cases {
		c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
		c.write(b(c))
		t.Log(name)
		c.wantCut()
	}
	if n := s.Stats().BadSignatures - before; n < 8 {
		t.Errorf("%d messages counted", n)
	}
	// Before the session has a key, and without encryption.
	for _, c := range []*raw{dial(t, addr), login(t, addr, 0x0311), login(t, addr, 0x0210)} {
		if c.session == 0 {
			c.mustNegotiate(0x0311)
		}
		c.cipher, c.out = smbauth.AES128GCM, smbauth.NewEncrypter(smbauth.AES128GCM, smbauth.CipherKey{})
		c.write(echo(c))
		c.wantCut()
	}
}

// A session cannot be used through the key of another one on the same connection.
//
// Source: [MS-SMB2 3.3.5.2.9]
func TestKeyOfAnotherSessionIsRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	alice := c.session
	c.session, c.tree, c.signer, c.out, c.in = 0, 0, nil, nil, nil
	c.mustSetup("bob", testPassword)
	m := c.message(cmdEcho, []byte{4, 0, 0, 0})
	le.PutUint64(m[40:], alice)
	c.send(m)
	c.wantCut()
}

// A session whose key has encrypted the most data that it may ends with its connection, and
// sends nothing more.
func TestUsedUpKeyEndsTheConnection(t *testing.T) {
	s, _, _ := testServer(t, nil)
	c := pipeTo(t, s)
	defer c.nc.Close()
	c.offer = []smbauth.Cipher{smbauth.AES128GCM}
	c.mustNegotiate(0x0311)
	c.mustSetup(testUser, testPassword)
	ss := s.session(c.session)
	ss.cipher.encrypt = func([]byte, uint64) error { return smbauth.ErrKeyUsedUp }
	c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
	c.wantCut()
	<-ss.Done()
	if cause := context.Cause(ss.conn.ctx); !errors.Is(cause, smbauth.ErrKeyUsedUp) {
		t.Errorf("cause %v", cause)
	}
}
