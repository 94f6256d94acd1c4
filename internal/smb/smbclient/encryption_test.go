package smbclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbserver"
	"lwio/internal/smb/smbwire"
)

// dialectCiphers are the dialects with their ciphers.
var dialectCiphers = []struct {
	dialect uint16
	cipher  smbauth.Cipher
}{
	{smbwire.Dialect300, smbauth.AES128CCM},
	{smbwire.Dialect302, smbauth.AES128CCM},
	{smbwire.Dialect311, smbauth.AES128CCM},
	{smbwire.Dialect311, smbauth.AES128GCM},
	{smbwire.Dialect311, smbauth.AES256CCM},
	{smbwire.Dialect311, smbauth.AES256GCM},
}

// wiretap is a connection that records the bytes in both directions.
type wiretap struct {
	net.Conn
	mu   sync.Mutex
	seen bytes.Buffer
}

func (w *wiretap) record(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Write(b)
}

func (w *wiretap) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.record(p[:n])
	return n, err
}

func (w *wiretap) Write(p []byte) (int, error) {
	w.record(p)
	return w.Conn.Write(p)
}

// has reports whether the bytes on the network contain others.
func (w *wiretap) has(b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.seen.Bytes(), b)
}

// tapped opens a session with a server over a recorded connection.
func tapped(t *testing.T, addr string, cfg Config) (*Session, *wiretap) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{Conn: nc}
	cfg.User, cfg.Password = testUser, testPassword
	s, err := New(t.Context(), w, "127.0.0.1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, w
}

// An encrypted session reads, writes, locks, cancels, lists and talks to pipes, and neither
// data nor names are on the network, in any dialect and with any cipher.
//
// Source: [MS-SMB2 3.2.4.1.8], [MS-SMB2 3.2.5.1.1]
func TestEncryptedSessionHidesDataAndNames(t *testing.T) {
	addr, dir := startServer(t, nil)
	for _, x := range dialectCiphers {
		t.Run(fmt.Sprintf("%#x %v", x.dialect, x.cipher), func(t *testing.T) {
			ctx := t.Context()
			s, tap := tapped(t, addr, Config{Dialects: []uint16{x.dialect}, Ciphers: []smbauth.Cipher{x.cipher}, RequireEncryption: true})
			if got := s.Encryption(); got != x.cipher.String() || s.Dialect() != x.dialect {
				t.Fatalf("dialect %#x, encryption %q", s.Dialect(), got)
			}
			tree, err := s.TreeConnect(ctx, "data")
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, tree, readWrite("hidden-name"))
			data := append(random(5<<20), "hidden-data-hidden-data"...)
			if n, err := f.WriteAt(ctx, data, 3); n != len(data) || err != nil {
				t.Fatal(n, err)
			}
			got := make([]byte, len(data))
			if n, err := f.ReadAt(ctx, got, 3); err != nil || !bytes.Equal(got, data) {
				t.Fatal(n, err)
			}
			if disk := contents(t, dir+"/hidden-name"); disk[3:] != string(data) {
				t.Error("the file has other bytes")
			}
			if _, err := tree.Stat(ctx, "hidden-name"); err != nil {
				t.Error(err)
			}
			if err := errors.Join(tree.Mkdir(ctx, "hidden-dir"), tree.Rename(ctx, "hidden-dir", "hidden-dir2", false), tree.Remove(ctx, "hidden-dir2")); err != nil {
				t.Error(err)
			}
			if err := f.Lock(ctx, 0, 1, true, false); err != nil {
				t.Error(err)
			}
			waiting, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if err := open(t, tree, readWrite("hidden-name")).Lock(waiting, 0, 1, true, true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("lock of a locked range: %v", err)
			}
			p, err := s.OpenPipe(ctx, "reverse")
			if err != nil {
				t.Fatal(err)
			}
			if out, err := p.Transact(ctx, []byte("hidden-request"), 100); err != nil || string(out) != "tseuqer-neddih" {
				t.Errorf("%q, %v", out, err)
			}
			for _, secret := range []string{"hidden", "tseuqer"} {
				name, err := smbwire.UTF16(secret)
				if err != nil {
					t.Fatal(err)
				}
				if tap.has([]byte(secret)) || tap.has(name) {
					t.Errorf("%q is on the network", secret)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without encryption the same names are on the network, so the wiretap sees them.
func TestSignedSessionShowsNames(t *testing.T) {
	addr, _ := startServer(t, nil)
	s, tap := tapped(t, addr, Config{})
	tree, err := s.TreeConnect(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	open(t, tree, readWrite("shown"))
	name, err := smbwire.UTF16("shown")
	if err != nil {
		t.Fatal(err)
	}
	if !tap.has(name) || s.Encryption() != "" {
		t.Errorf("the wiretap does not see a name; encryption %q", s.Encryption())
	}
}

// The client encrypts from the logon on if the server requires encryption, and from the tree
// connect on if the share does.
//
// Source: [MS-SMB2 3.2.5.3.1], [MS-SMB2 3.2.5.5]
func TestClientEncryptsAsServerAndShareRequire(t *testing.T) {
	for _, d := range []uint16{smbwire.Dialect300, smbwire.Dialect311} {
		addr, _ := startServer(t, func(c *smbserver.Config) { c.Encryption = smbserver.EncryptionRequired })
		s := connect(t, addr, func(c *Config) { c.Dialects = []uint16{d} })
		if s.Encryption() == "" {
			t.Errorf("%#x: the server requires encryption, and the client signs", d)
		}
		tree, err := s.TreeConnect(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		open(t, tree, readWrite("f"))

		share := smbwire.TreeConnectResponse{ShareType: smbwire.ShareTypeDisk, ShareFlags: smbwire.ShareFlagEncryptData}
		cipher := smbauth.DefaultCipher(d)
		if cipher == smbauth.NoCipher {
			cipher = smbauth.AES256GCM
		}
		f, tree := fakeMount(t, func(f *fake) { f.dialect, f.cipher, f.share = d, cipher, share }, nil)
		if got := tree.s.Encryption(); got != cipher.String() {
			t.Errorf("%#x: the share requires encryption, and the client uses %q", d, got)
		}
		if err := echo(t.Context(), tree.s); err != nil {
			t.Error(err)
		}
		for _, h := range f.requests() {
			if signed := h.Flags&smbwire.FlagSigned != 0; signed != (h.Command == smbwire.CommandTreeConnect) && h.SessionID != 0 && h.Command > smbwire.CommandSessionSetup {
				t.Errorf("%#x: %v is signed: %t", d, h.Command, signed)
			}
		}
	}
}

// A client that requires encryption sends no credentials to a server without it. A server or
// share that requires encryption and has none is refused.
//
// Source: [MS-SMB2 3.2.5.2]
func TestRequiredEncryptionRefusesServersWithout(t *testing.T) {
	require := func(c *Config) { c.RequireEncryption = true }
	for _, d := range []uint16{smbwire.Dialect210, smbwire.Dialect302, smbwire.Dialect311} {
		f, nc := newFake(t, func(f *fake) { f.dialect = d })
		if _, err := f.logon(nc, require); !errors.Is(err, ErrEncryption) {
			t.Errorf("%#x: %v", d, err)
		}
		if n := f.count(smbwire.CommandSessionSetup); n != 0 {
			t.Errorf("%#x: %d session set-ups", d, n)
		}
	}
	context := func(data []byte) func(*smbwire.NegotiateResponse) {
		return func(r *smbwire.NegotiateResponse) {
			r.Contexts = append(r.Contexts, smbwire.NegotiateContext{Type: smbwire.ContextEncryption, Data: data})
		}
	}
	for name, row := range map[string]struct {
		data []byte
		want error
	}{
		"no common cipher":   {smbwire.AppendAlgorithms(nil, 0), ErrEncryption},
		"a cipher not asked": {smbwire.AppendAlgorithms(nil, 77), ErrProtocol},
		"two ciphers":        {smbwire.AppendAlgorithms(nil, 1, 2), ErrProtocol},
		"cut":                {[]byte{1}, ErrProtocol},
	} {
		f, nc := newFake(t, func(f *fake) { f.negotiate = context(row.data) })
		if _, err := f.logon(nc, require); !errors.Is(err, row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, nc := newFake(t, func(f *fake) {
		f.share = smbwire.TreeConnectResponse{ShareType: smbwire.ShareTypeDisk, ShareFlags: smbwire.ShareFlagEncryptData}
	})
	s, err := f.logon(nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.TreeConnect(t.Context(), "data"); !errors.Is(err, ErrEncryption) {
		t.Error(err)
	}
}

// An attacker that removes encryption from the negotiation of dialect 3.0.2 is found by its
// validation, also if encryption is not required.
//
// Source: [MS-SMB2 3.2.5.14.12]
func TestRemovedEncryptionIsFound(t *testing.T) {
	f, nc := newFake(t, func(f *fake) {
		f.dialect, f.cipher = smbwire.Dialect302, smbauth.AES128CCM
		f.negotiate = func(r *smbwire.NegotiateResponse) { r.Capabilities &^= smbwire.CapEncryption }
	})
	s, err := f.logon(nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.TreeConnect(t.Context(), "data"); !errors.Is(err, ErrDowngrade) {
		t.Error(err)
	}
}

// A response to an encrypted request that is not encrypted, or not by the key of the session,
// ends the connection, and gives the caller no data.
//
// Source: [MS-SMB2 3.2.5.1.1]
func TestHostileResponsesToEncryptedRequests(t *testing.T) {
	const head = smbwire.FrameHeaderSize
	raw := func(do func(f *fake, h smbwire.Header) []byte) func(*fake) {
		return onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) { f.write(do(f, h)) })
	}
	spoilt := func(do func(b []byte)) func(*fake) {
		return raw(func(f *fake, h smbwire.Header) []byte {
			b := f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100)})
			do(b)
			return b
		})
	}
	inside := func(do func(msg []byte)) func(*fake) {
		return raw(func(f *fake, h smbwire.Header) []byte {
			f.secret, f.signer = false, nil
			b := f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100)})
			do(b[head:])
			return f.encrypt(b[head:])
		})
	}
	for name, row := range map[string]struct {
		change func(*fake)
		want   error
	}{
		"signature":  {spoilt(func(b []byte) { b[head+4] ^= 1 }), smbauth.ErrDecryption},
		"nonce":      {spoilt(func(b []byte) { b[head+20] ^= 1 }), smbauth.ErrDecryption},
		"size":       {spoilt(func(b []byte) { b[head+36] ^= 1 }), smbauth.ErrDecryption},
		"message":    {spoilt(func(b []byte) { b[head+60] ^= 1 }), smbauth.ErrDecryption},
		"flags":      {spoilt(func(b []byte) { b[head+42] ^= 1 }), ErrProtocol},
		"session":    {spoilt(func(b []byte) { b[head+44] ^= 1 }), ErrProtocol},
		"too long":   {spoilt(func(b []byte) { b[1] = 0xFF }), ErrProtocol},
		"too short":  {spoilt(func(b []byte) { b[3] = 100 }), ErrProtocol},
		"compressed": {inside(func(msg []byte) { msg[0] = 0xFC }), smbwire.ErrCompressed},
		"twice":      {inside(func(msg []byte) { msg[0] = 0xFD }), smbwire.ErrEncrypted},
		"request":    {inside(func(msg []byte) { msg[16] &^= 1 }), ErrProtocol},
		"another id": {inside(func(msg []byte) { msg[24] ^= 64 }), ErrProtocol},
		"longer than asked": {raw(func(f *fake, h smbwire.Header) []byte {
			return f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100+slack)})
		}), ErrProtocol},
		"much longer than asked": {raw(func(f *fake, h smbwire.Header) []byte {
			return f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, anyEncrypted)})
		}), ErrProtocol},
		"signed": {raw(func(f *fake, h smbwire.Header) []byte {
			f.secret = false
			return f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100)})
		}), ErrEncryption},
		"signed interim response": {raw(func(f *fake, h smbwire.Header) []byte {
			f.secret = false
			h.Flags |= smbwire.FlagAsync
			return f.answer(h, ntstatus.Pending, &smbwire.ErrorResponse{})
		}), ErrEncryption},
		"own request": {raw(func(f *fake, h smbwire.Header) []byte {
			keys := smbauth.NewEncrypter(f.cipher, smbauth.CipherKey{1})
			f.out = keys
			return f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100)})
		}), smbauth.ErrDecryption},
	} {
		t.Run(name, func(t *testing.T) {
			_, tree := fakeMount(t, func(f *fake) {
				f.cipher = smbauth.AES128GCM
				row.change(f)
			}, func(c *Config) { c.RequireEncryption = true })
			p := make([]byte, 100)
			f := &File{t: tree, id: fakeFile}
			if n, err := f.ReadAt(t.Context(), p, 0); n != 0 || !errors.Is(err, row.want) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// An encrypted message before the session has a key ends the connection.
func TestEncryptedMessageBeforeTheLogonIsRefused(t *testing.T) {
	f, nc := newFake(t, func(f *fake) {
		f.cipher = smbauth.AES128GCM
		f.out = smbauth.NewEncrypter(f.cipher, smbauth.CipherKey{})
		f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
			if h.Command == smbwire.CommandSessionSetup {
				f.secret = true
				f.reply(h, 0, &smbwire.SessionSetupResponse{})
			}
			return h.Command == smbwire.CommandSessionSetup
		}
	})
	if _, err := f.logon(nc, nil); !errors.Is(err, smbwire.ErrEncrypted) {
		t.Error(err)
	}
}

// A client whose key has encrypted the most data that it may ends the connection, and sends
// nothing more.
func TestUsedUpKeyEndsTheSession(t *testing.T) {
	f, tree := fakeMount(t, func(f *fake) { f.cipher = smbauth.AES128GCM }, func(c *Config) { c.RequireEncryption = true })
	before := tree.s.conn.encryption.Load()
	after := &encryption{cipher: before.cipher, sessionID: before.sessionID, in: before.in, out: func([]byte, uint64) error { return smbauth.ErrKeyUsedUp }}
	after.on.Store(true)
	tree.s.conn.encryption.Store(after)
	if err := echo(t.Context(), tree.s); !errors.Is(err, smbauth.ErrKeyUsedUp) || !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if n := f.count(smbwire.CommandEcho); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
