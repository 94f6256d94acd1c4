package smbserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/vfs"
	"lwio/vfs/posix"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// Commands, by number, as the raw client writes them.
const (
	cmdNegotiate = iota
	cmdSessionSetup
	cmdLogoff
	cmdTreeConnect
	cmdTreeDisconnect
	cmdCreate
	cmdClose
	cmdFlush
	cmdRead
	cmdWrite
	cmdLock
	cmdIoctl
	cmdCancel
	cmdEcho
	cmdQueryDirectory
	cmdChangeNotify
	cmdQueryInfo
	cmdSetInfo
	cmdOplockBreak
)

const (
	testUser     = "alice"
	testPassword = "wonderland"
	ioTimeout    = time.Minute
)

var le = binary.LittleEndian

// raw is a client that writes the bytes of messages by hand, so that it can write wrong
// ones, and shares no codec with the server.
type raw struct {
	t       testing.TB
	nc      net.Conn
	id      uint64
	session uint64
	tree    uint32
	dialect uint16
	signing smbauth.SigningAlgorithm
	signer  smbauth.Signer
	preauth smbauth.PreauthHash
	keys    smbauth.SessionKeys
	sent    map[[16]byte]bool // signatures of requests

	// Set by encrypt, before mustNegotiate.
	offer  []smbauth.Cipher
	cipher smbauth.Cipher // of the connection
	out    *smbauth.Encrypter
	in     *smbauth.Decrypter
	plain  bool // do not encrypt: sign

	guid byte // of the client; 0 for that of negotiateBody
	caps byte // of the client, in addition to those of negotiateBody
}

// reply is one response of a message.
type reply struct {
	status  ntstatus.Status
	command uint16
	credits uint16
	flags   uint32
	id      uint64
	tree    uint32
	session uint64
	msg     []byte
	body    []byte
}

// testServer starts a server on a new directory and closes it at the end of the test.
func testServer(t testing.TB, change func(*Config)) (s *Server, addr, dir string) {
	t.Helper()
	dir = t.TempDir()
	b, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ro, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{
		{Name: "data", Backend: b}, {Name: "ro", Backend: ro, ReadOnly: true}, {Name: "secret", Backend: secret, RequireEncryption: true},
	}, LeaseTimeout: 10 * ioTimeout})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{FS: fs, ServerName: "TEST", Lookup: lookupTest, FailureDelay: time.Millisecond, AuthTimeout: time.Minute}
	if change != nil {
		change(&cfg)
	}
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if err := fs.Close(); err != nil {
			t.Errorf("close of the file system: %v", err)
		}
		if st := fs.Stats(); st.Opens != 0 {
			t.Errorf("%d opens are left", st.Opens)
		}
		if bytes, users := s.memory.Held()+s.held.Held(), s.users.Held(); bytes != 0 || users != 0 {
			t.Errorf("%d bytes and %d connections of users are left", bytes, users)
		}
		checkNoLineages(t, s.lineages)
	})
	return s, l.Addr().String(), filepath.Clean(dir)
}

// lookupTest knows testUser, and bob in any spelling that folds to it.
func lookupTest(_, user string) (string, [16]byte, bool) {
	for _, name := range []string{testUser, "bob", "boss"} {
		if strings.EqualFold(name, user) {
			return name, smbauth.NTHash(testPassword), true
		}
	}
	return "", [16]byte{}, false
}

// session returns the session with an id, or nil.
func (s *Server) session(id uint64) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// encrypted connects, negotiates a dialect and a cipher, logs alice on, and encrypts all
// messages after that.
func encrypted(t testing.TB, addr string, dialect uint16, cipher smbauth.Cipher) *raw {
	t.Helper()
	c := dial(t, addr)
	c.offer = []smbauth.Cipher{cipher}
	c.mustNegotiate(dialect)
	if c.cipher != cipher {
		t.Fatalf("cipher %v, want %v", c.cipher, cipher)
	}
	c.mustSetup(testUser, testPassword)
	return c
}

// dial connects and sends nothing.
func dial(t testing.TB, addr string) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &raw{t: t, nc: nc}
}

// login connects, negotiates dialect, and logs alice on.
func login(t testing.TB, addr string, dialect uint16) *raw {
	t.Helper()
	c := dial(t, addr)
	c.mustNegotiate(dialect)
	c.mustSetup(testUser, testPassword)
	return c
}

// mount is login and a tree connect to a share.
func mount(t testing.TB, addr, share string) *raw {
	t.Helper()
	c := login(t, addr, 0x0311)
	c.mustConnect(share)
	return c
}

// message makes a message with the next id. n is the credit charge.
func (c *raw) message(command uint16, body []byte) []byte {
	m := make([]byte, 64, 64+len(body))
	copy(m, "\xfeSMB\x40\x00")
	charge := (len(body) + 65535) / 65536
	le.PutUint16(m[6:], uint16(max(charge, 1)))
	le.PutUint16(m[12:], command)
	le.PutUint16(m[14:], 64)
	le.PutUint64(m[24:], c.id)
	le.PutUint32(m[36:], c.tree)
	le.PutUint64(m[40:], c.session)
	c.id += uint64(max(charge, 1))
	return append(m, body...)
}

// charge raises the credit charge of the last message to n.
func (c *raw) charge(m []byte, n uint16) []byte {
	c.id += uint64(n) - uint64(le.Uint16(m[6:]))
	le.PutUint16(m[6:], n)
	return m
}

// related marks messages but the first as related to the one before.
func related(msgs ...[]byte) [][]byte {
	for _, m := range msgs[1:] {
		le.PutUint32(m[16:], le.Uint32(m[16:])|4)
		le.PutUint32(m[36:], ^uint32(0))
		le.PutUint64(m[40:], ^uint64(0))
	}
	return msgs
}

// encrypts reports whether the client encrypts its messages.
func (c *raw) encrypts() bool { return c.out != nil && !c.plain }

// frame makes a compound of messages, encrypts it or signs them if there is a key, and frames
// them.
func (c *raw) frame(msgs ...[]byte) []byte {
	out := make([]byte, 4)
	if c.encrypts() {
		out = make([]byte, 4+52)
	}
	for i, m := range msgs {
		if i < len(msgs)-1 {
			for len(m)%8 != 0 {
				m = append(m, 0)
			}
			le.PutUint32(m[20:], uint32(len(m)))
		}
		if c.signer != nil && !c.encrypts() {
			le.PutUint32(m[16:], le.Uint32(m[16:])|8)
			c.signer.Sign(m)
			if c.sent == nil {
				c.sent = make(map[[16]byte]bool)
			}
			c.sent[[16]byte(m[48:64])] = true
		}
		out = append(out, m...)
	}
	if c.encrypts() {
		out = slices.Grow(out, smbauth.TagSize)
		if err := c.out.Encrypt(out[4:], c.session); err != nil {
			c.t.Fatal(err)
		}
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (c *raw) write(b []byte) {
	c.t.Helper()
	if err := c.nc.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// send writes messages as one frame.
func (c *raw) send(msgs ...[]byte) {
	c.t.Helper()
	c.write(c.frame(msgs...))
}

// readFrame reads one frame, without its length.
func (c *raw) readFrame() ([]byte, error) {
	if err := c.nc.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.nc, b)
	return b, err
}

// recv reads one frame and takes it apart. Signatures are checked, and that an encrypted
// request has encrypted responses.
func (c *raw) recv() []reply {
	c.t.Helper()
	b, err := c.readFrame()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	encrypted := len(b) > 4 && string(b[:4]) == "\xfdSMB"
	if encrypted != c.encrypts() {
		c.t.Fatalf("response %x, encrypted: %t, want %t", b[:min(64, len(b))], encrypted, c.encrypts())
	}
	if encrypted {
		if le.Uint64(b[44:]) != c.session {
			c.t.Fatalf("response %x of another session than %x", b[:52], c.session)
		}
		if b, err = c.in.Decrypt(b); err != nil {
			c.t.Fatal(err)
		}
	}
	var all []reply
	for {
		if len(b) < 64 || string(b[:4]) != "\xfeSMB" {
			c.t.Fatalf("response %x", b)
		}
		m, next := b, le.Uint32(b[20:])
		if next != 0 {
			if int(next) > len(b) || next%8 != 0 {
				c.t.Fatalf("next response at %d of %d", next, len(b))
			}
			m = b[:next]
		}
		r := reply{
			status: ntstatus.Status(le.Uint32(m[8:])), command: le.Uint16(m[12:]), credits: le.Uint16(m[14:]),
			flags: le.Uint32(m[16:]), id: le.Uint64(m[24:]), tree: le.Uint32(m[36:]), session: le.Uint64(m[40:]),
			msg: m, body: m[64:],
		}
		if r.flags&1 == 0 {
			c.t.Fatalf("response without the response flag: %x", m[:64])
		}
		// A response without a key repeats the signature of its request.
		repeated := c.sent[[16]byte(m[48:64])] && r.status.Failed()
		if r.flags&8 != 0 && c.signer != nil && !repeated && !c.signer.Verify(m) {
			c.t.Fatalf("wrong signature of the response to command %d", r.command)
		}
		unasked := r.command == cmdOplockBreak && r.id == ^uint64(0)
		if r.flags&8 == 0 && c.signer != nil && !encrypted && r.status == ntstatus.Success && !unasked {
			c.t.Fatalf("response to command %d is not signed", r.command)
		}
		all = append(all, r)
		if next == 0 {
			return all
		}
		b = b[next:]
	}
}

// call sends one message and returns its final response. An interim one may precede it, for
// any pipe on a busy machine.
func (c *raw) call(command uint16, body []byte) reply {
	c.t.Helper()
	c.send(c.message(command, body))
	r := c.recv()[0]
	for r.status == ntstatus.Pending {
		r = c.recv()[0]
	}
	return r
}

// want is call, and fails the test unless the status is st.
func (c *raw) want(st ntstatus.Status, command uint16, body []byte) reply {
	c.t.Helper()
	r := c.call(command, body)
	if r.status != st {
		c.t.Fatalf("command %d: %v, want %v", command, r.status, st)
	}
	return r
}

// wantCut fails the test unless the server has closed the connection.
func (c *raw) wantCut() {
	c.t.Helper()
	if b, err := c.readFrame(); err == nil {
		c.t.Fatalf("connection lives, response %x", b)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		c.t.Fatal("connection lives and is silent")
	}
}

// mustNegotiate offers one dialect.
func (c *raw) mustNegotiate(dialect uint16) reply {
	c.t.Helper()
	body := negotiateBody(dialect)
	if c.guid != 0 {
		body[12] = c.guid
	}
	body[8] |= c.caps
	m := c.message(cmdNegotiate, offerCiphers(body, dialect, c.offer))
	c.preauth.Update(m)
	c.send(m)
	r := c.recv()[0]
	if r.status != ntstatus.Success || le.Uint16(r.body[4:]) != dialect {
		c.t.Fatalf("negotiate %#x: %v, %x", dialect, r.status, r.body)
	}
	c.preauth.Update(r.msg)
	c.dialect, c.signing = dialect, smbauth.DefaultSigning(dialect)
	if dialect == 0x0311 {
		c.signing = smbauth.AESGMAC
	}
	c.cipher = chosenCipher(dialect, r.body)
	return r
}

// setup runs a session set-up to its end and returns the last response.
func (c *raw) setup(user, password string, previous uint64) reply {
	c.t.Helper()
	return c.setupBy(smbauth.NewInitiator(smbauth.InitiatorConfig{User: user, Password: password, TargetSPN: "cifs/x"}), previous)
}

// setupBy is setup with a client's side of the authentication.
func (c *raw) setupBy(i *smbauth.Initiator, previous uint64) reply {
	c.t.Helper()
	preauth, again := c.preauth, c.signer != nil
	var in []byte
	for {
		out, _, err := i.Step(in)
		if err != nil {
			c.t.Fatal(err)
		}
		m := c.message(cmdSessionSetup, setupBody(out, previous))
		if !again {
			preauth.Update(m)
		}
		c.send(m)
		r := c.recv()[0]
		if c.session == 0 {
			c.session = r.session
		}
		if r.status != ntstatus.MoreProcessingRequired {
			if r.status == ntstatus.Success {
				off, n := le.Uint16(r.body[4:])-64, le.Uint16(r.body[6:])
				if _, done, err := i.Step(r.body[off : off+n]); err != nil || !done {
					c.t.Fatalf("the last token: done %v, %v", done, err)
				}
			}
			if r.status == ntstatus.Success && !again {
				c.keys = smbauth.DeriveKeys(c.dialect, c.cipher, i.SessionKey(), preauth)
				c.signer = smbauth.NewSigner(c.signing, c.keys.Signing)
				if r.flags&8 == 0 || !c.signer.Verify(r.msg) {
					c.t.Fatal("last response of the session set-up is not signed, or not rightly")
				}
				if c.cipher != smbauth.NoCipher {
					c.out, c.in = smbauth.NewEncrypter(c.cipher, c.keys.ClientToServer), smbauth.NewDecrypter(c.cipher, c.keys.ServerToClient)
				}
			}
			return r
		}
		preauth.Update(r.msg)
		off, n := le.Uint16(r.body[4:])-64, le.Uint16(r.body[6:])
		in = r.body[off : off+n]
	}
}

func (c *raw) mustSetup(user, password string) {
	c.t.Helper()
	if r := c.setup(user, password, 0); r.status != ntstatus.Success {
		c.t.Fatalf("session set-up of %s: %v", user, r.status)
	}
}

func (c *raw) mustConnect(share string) reply {
	c.t.Helper()
	r := c.want(ntstatus.Success, cmdTreeConnect, connectBody(share))
	c.tree = r.tree
	return r
}

// mustCreate opens a file and returns its FileId.
func (c *raw) mustCreate(o create) [16]byte {
	c.t.Helper()
	r := c.want(ntstatus.Success, cmdCreate, o.body())
	return [16]byte(r.body[64:80])
}
