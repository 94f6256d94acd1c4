package smbserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"lwio/internal/account"
	"lwio/internal/smb/smbauth"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// fuzzServer is a server with a directory of its own.
func fuzzServer(f testing.TB) *Server {
	b, err := posix.OpenDir(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: b}}})
	if err != nil {
		f.Fatal(err)
	}
	cfg := Config{FS: fs, Lookup: lookupTest, FailureDelay: time.Nanosecond, AuthTimeout: time.Minute}
	pipes(nil)(&cfg)
	s, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		s.Close()
		fs.Close()
	})
	return s
}

// pipeTo connects to a server without a network.
func pipeTo(t testing.TB, s *Server) *raw {
	a, b := net.Pipe()
	s.ServeConn(b)
	return &raw{t: t, nc: a}
}

// idOffset is the offset of the FileId in the body of a command.
var idOffset = map[byte]int{
	cmdClose: 8, cmdFlush: 8, cmdRead: 16, cmdWrite: 16, cmdLock: 8, cmdIoctl: 8, cmdQueryDirectory: 8, cmdChangeNotify: 8,
	cmdQueryInfo: 24, cmdSetInfo: 16, cmdOplockBreak: 8,
}

// fuzzDialects are the dialects and ciphers of sessions of FuzzRequests.
var fuzzDialects = []struct {
	dialect uint16
	cipher  smbauth.Cipher
}{
	{0x0302, smbauth.AES128CCM}, {0x0311, smbauth.AES128GCM}, {0x0311, smbauth.AES256GCM}, {0x0311, smbauth.AES256CCM},
	{0x0210, smbauth.NoCipher},
}

// The second byte of a request of FuzzRequests.
const (
	fuzzHandle    = 3  // the handle of the request: 0 as in the body, 1 a file, 2 the root, 3 a pipe
	fuzzRelated   = 4  // a CREATE precedes the request in a compound
	fuzzEncrypted = 8  // the message is encrypted, not signed
	fuzzPipelined = 16 // the next message is sent before the responses arrive
	fuzzCancelled = 32 // a CANCEL of the request follows
)

// fuzzPipeline is the highest number of messages in flight.
const fuzzPipeline = 12

// FuzzRequests sends sequences of requests of an authenticated client. The first byte selects the
// dialect and the cipher. Each request is a command, a byte of flags and a body. Each message
// gets as many responses as it has requests, or the connection ends. After the connection the
// server holds orphans for the client, and nothing else: no memory, no connection of its user, no other
// open and no lock. The end of the server ends the orphans.
// Each input has a new server, so that changes of files (a read-only attribute, say) do not affect
// the next input.
func FuzzRequests(f *testing.F) {
	seed := func(cmd, how byte, body []byte) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte{cmd, how}, uint16(len(body))), body...)
	}
	id := [16]byte{}
	exclusive := lockBody(id, element{0, 1, lockExclusive})
	for i, requests := range [][][]byte{
		{seed(cmdCreate, 0, rw("x").body())},
		{seed(cmdRead, 1, readBody(id, 0, 100, 0))},
		{seed(cmdWrite, 1, writeBody(id, 5, []byte("abc")))},
		{seed(cmdQueryDirectory, 2, findBody(id, 37, 1, "*", 1000))},
		{seed(cmdQueryInfo, 1, queryBody(id, 1, 18, 0, 1000))},
		{seed(cmdQueryInfo, 1, queryBody(id, 2, 5, 0, 1000))},
		{seed(cmdQueryInfo, 1, queryBody(id, 3, 0, 7, 1000))},
		{seed(cmdSetInfo, 1, setBody(id, 1, 10, renameInfo("y", true)))},
		{seed(cmdSetInfo, 1, setBody(id, 1, 4, make([]byte, 40)))},
		{seed(cmdSetInfo, 1, setBody(id, 1, 20, []byte{9, 0, 0, 0, 0, 0, 0, 0}))},
		{seed(cmdIoctl, 1, ioctlBody(id, fsctlResumeKey, nil, 100))},
		{seed(cmdIoctl, 3, ioctlBody(id, fsctlTransceive, []byte("hi"), 100))},
		{seed(cmdClose, 1, closeBody(id, 1))},
		{seed(cmdLock, 1, lockBody(id, element{0, 1, lockShared | lockNow}, element{5, 0, lockExclusive | lockNow}))},
		{seed(cmdLock, 1, exclusive), seed(cmdLock, 1, lockBody(id, element{0, 1, lockShared | lockExclusive}))},
		{seed(cmdLock, 1, exclusive), seed(cmdLock, 1, lockBody(id, element{0, 5, lockExclusive}))},
		{seed(cmdLock, 1, lockBody(id, element{0, 1, lockUnlock}))},
		{seed(cmdTreeConnect, 0, connectBody("data"))},
		{seed(cmdTreeDisconnect, 0, []byte{4, 0, 0, 0})},
		{seed(cmdSessionSetup, 0, setupBody([]byte("x"), 0))},
		{seed(cmdNegotiate, 0, negotiateBody(0x0311))},
		{seed(cmdLogoff, 0, []byte{4, 0, 0, 0})},
		{seed(cmdRead, 9, readBody(id, 0, 100, 0))},
		{seed(cmdLock, 1, exclusive), seed(cmdLock, 9, lockBody(id, element{0, 5, lockExclusive}))},
		{seed(cmdWrite, 9, writeBody(id, 5, []byte("abc"))), seed(cmdLogoff, 8, []byte{4, 0, 0, 0})},
		{seed(cmdCreate, 12, rw("z").body()), seed(cmdClose, 12, closeBody(noID, 0))},
		{seed(cmdCreate, 0, rw("z").body()), seed(cmdClose, 4, closeBody(noID, 0))},
		{seed(cmdWrite, 17, writeBody(id, 0, make([]byte, 9000))), seed(cmdRead, 25, readBody(id, 0, 9000, 0)), seed(cmdClose, 9, closeBody(id, 0))},
		{seed(cmdLock, 17, exclusive), seed(cmdLock, 49, exclusive), seed(cmdLogoff, 16, []byte{4, 0, 0, 0}), seed(cmdRead, 1, readBody(id, 0, 100, 0))},
		{seed(cmdQueryDirectory, 26, findBody(id, 37, 0, "*", 60000)), seed(cmdTreeDisconnect, 24, []byte{4, 0, 0, 0}), seed(cmdFlush, 9, append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...))},
		{seed(cmdIoctl, 51, ioctlBody(id, fsctlTransceive, make([]byte, 3000), 3000)), seed(cmdClose, 11, closeBody(id, 0))},
		{seed(cmdChangeNotify, 58, append(make([]byte, 8), append(id[:], make([]byte, 8)...)...)), seed(cmdSessionSetup, 0, setupBody([]byte("x"), 0))},
		{seed(cmdChangeNotify, 18, notifyBody(id, 1, 100, changedAll)), seed(cmdWrite, 17, writeBody(id, 0, []byte("x"))), seed(cmdCreate, 0, rw("new").body())},
		{seed(cmdChangeNotify, 26, notifyBody(id, 0, 0, changedAll)), seed(cmdSetInfo, 25, setBody(id, 1, 10, renameInfo("y", true))), seed(cmdClose, 10, closeBody(id, 0))},
		{seed(cmdChangeNotify, 22, notifyBody(id, 1, 5000, changedNames)), seed(cmdTreeDisconnect, 16, []byte{4, 0, 0, 0}), seed(cmdLogoff, 0, []byte{4, 0, 0, 0})},
		{seed(cmdIoctl, 1, ioctlBody(id, fsctlCopyChunk, copyInput(make([]byte, 24), chunk{n: 10}), 12)), seed(cmdIoctl, 9, ioctlBody(id, fsctlCopyChunkWrite, make([]byte, 32), 12))},
		{seed(cmdCreate, 0, persistent(rw("p"), 1, 0).body())},
		{seed(cmdCreate, 16, persistent(rw("p"), 1, 100).body()), seed(cmdCreate, 24, persistent(rw("p"), 1, 1<<31).body())},
		{seed(cmdCreate, 4, persistent(rw("p"), 2, 0).body()), seed(cmdTreeDisconnect, 0, []byte{4, 0, 0, 0})},
		{seed(cmdCreate, 0, persistent(rw("p"), 3, 0).body()), seed(cmdCreate, 0, reclaiming([16]byte{3}, 3).body()), seed(cmdLogoff, 0, []byte{4, 0, 0, 0})},
		{seed(cmdCreate, 0, persistent(create{access: 1, share: 7, disposition: 1, options: 1}, 4, 0).body())},
	} {
		f.Add(append([]byte{byte(i)}, bytes.Join(requests, nil)...))
		f.Add(append([]byte{byte(i + 1)}, bytes.Join(requests, nil)...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		s := fuzzServer(t)
		c := newFuzzClient(t, s, in[0])
		allowance := c.account(s)
		c.play(in[1:])
		c.raw.nc.Close()
		<-c.ended
		s.wg.Wait()
		c.wantOrphansOnly(s)
		s.Close()
		c.wantNothingHeld(s, allowance)
		checkNoLineages(t, s.lineages)
	})
}

// fuzzClient is an authenticated client of FuzzRequests with open handles.
type fuzzClient struct {
	raw        *raw
	canEncrypt bool
	ids        [4][16]byte   // by the bits of fuzzHandle
	key        []byte        // the resume key of the file
	frames     chan []byte   // received
	ended      chan struct{} // closed after frames
}

// newFuzzClient logs on in one of fuzzDialects and opens a file, the root and a pipe.
func newFuzzClient(t *testing.T, s *Server, dialect byte) *fuzzClient {
	x := fuzzDialects[int(dialect)%len(fuzzDialects)]
	r := pipeTo(t, s)
	r.plain = true
	if x.cipher != smbauth.NoCipher {
		r.offer = []smbauth.Cipher{x.cipher}
	}
	r.mustNegotiate(x.dialect)
	r.mustSetup(testUser, testPassword)
	r.mustConnect("IPC$")
	c := &fuzzClient{raw: r, canEncrypt: x.cipher != smbauth.NoCipher, frames: make(chan []byte, 1<<10), ended: make(chan struct{})}
	c.ids[3] = r.mustCreate(create{name: "lwio", access: 3, share: 7, disposition: 1})
	r.mustConnect("data")
	c.ids[1], c.ids[2] = r.mustCreate(rw("file")), r.mustCreate(create{access: 0x81, share: 7, disposition: 1, options: 1})
	c.key = r.keyOf(c.ids[1])
	go func() { // takes responses at any time, so that the server never waits for the client
		defer close(c.ended)
		defer close(c.frames)
		for {
			b, err := r.readFrame()
			if err != nil {
				return
			}
			c.frames <- b
		}
	}()
	return c
}

// fuzzCode returns the control code of an IOCTL, 0 for another body.
func fuzzCode(cmd byte, body []byte) uint32 {
	if cmd != cmdIoctl || len(body) < 8 {
		return 0
	}
	return le.Uint32(body[4:])
}

// account returns the account of the only connection of a server.
func (c *fuzzClient) account(s *Server) *account.Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns.All() {
		return conn.memory
	}
	c.raw.t.Fatal("no connection")
	return nil
}

// play sends the requests of an input.
func (c *fuzzClient) play(in []byte) {
	var out []byte
	due, messages := 0, 0
	for len(in) >= 4 {
		cmd, how, n := in[0], in[1], int(binary.LittleEndian.Uint16(in[2:]))
		in = in[4:]
		body := bytes.Clone(in[:min(n, len(in))])
		in = in[len(body):]
		if cmd == cmdCancel {
			continue
		}
		if off, ok := idOffset[cmd]; ok && len(body) >= off+16 && how&fuzzHandle != 0 {
			copy(body[off:], c.ids[how&fuzzHandle][:])
		}
		if code := fuzzCode(cmd, body); (code == fsctlCopyChunk || code == fsctlCopyChunkWrite) && len(body) >= 80 && body[56] == 0 {
			copy(body[56:], c.key) // a key of zeros is the key of the file
		}
		c.raw.plain = how&fuzzEncrypted == 0 || !c.canEncrypt
		first := c.raw.id
		msgs := [][]byte{c.raw.message(uint16(cmd), body)}
		if how&fuzzRelated != 0 {
			msgs = related(c.raw.message(cmdCreate, rw("related").body()), msgs[0])
		}
		out = append(out, c.raw.frame(msgs...)...)
		if how&fuzzCancelled != 0 {
			out = append(out, c.cancel(first, false)...)
		}
		due, messages = due+len(msgs), messages+1
		if how&fuzzPipelined != 0 && messages < fuzzPipeline && len(in) >= 4 {
			continue
		}
		if !c.exchange(out, due) {
			return
		}
		out, due, messages = nil, 0, 0
	}
}

// cancel returns a CANCEL of a request.
func (c *fuzzClient) cancel(id uint64, async bool) []byte {
	m := c.raw.message(cmdCancel, []byte{4, 0, 0, 0})
	c.raw.id--
	le.PutUint64(m[24:], id)
	if async {
		le.PutUint32(m[16:], 2)
		le.PutUint64(m[32:], id)
	}
	return c.raw.frame(m)
}

// exchange sends frames and takes the responses to all requests in them. It reports false if the
// server has cut the connection.
func (c *fuzzClient) exchange(out []byte, due int) bool {
	t := c.raw.t
	send := func(b []byte) bool {
		if c.raw.nc.SetDeadline(time.Now().Add(ioTimeout)) != nil {
			return false
		}
		_, err := c.raw.nc.Write(b)
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			t.Fatal("the server takes no message")
		}
		return err == nil
	}
	if !send(out) {
		return false
	}
	for due > 0 {
		var b []byte
		select {
		case b = <-c.frames:
		case <-time.After(ioTimeout):
			t.Fatalf("%d responses are missing", due)
		}
		if b == nil {
			return false
		}
		if len(b) > 4 && b[0] == 0xFD {
			var err error
			if b, err = c.raw.in.Decrypt(b); err != nil {
				t.Fatal(err)
			}
		}
		for next := 0; ; b = b[next:] {
			if len(b) < 64 || string(b[:4]) != "\xfeSMB" {
				t.Fatalf("response %x", b)
			}
			if le.Uint32(b[8:]) != 0x103 {
				due--
			} else if (b[12] == cmdLock || b[12] == cmdChangeNotify) && !send(c.cancel(le.Uint64(b[24:]), true)) { // otherwise it waits without end
				return false
			}
			if next = int(le.Uint32(b[20:])); next == 0 {
				break
			}
			if next > len(b) {
				t.Fatalf("next response at %d of %d", next, len(b))
			}
		}
	}
	if due < 0 {
		t.Fatalf("%d responses too many", -due)
	}
	return true
}

// wantOrphansOnly checks the sums of a server whose only connection has ended.
func (c *fuzzClient) wantOrphansOnly(s *Server) {
	t := c.raw.t
	st, files := s.Stats(), s.cfg.FS.Stats()
	if memory := s.memory.Held() + s.held.Held(); memory != int64(st.Suspended)*lineageMemory || s.users.Held() != 0 || st.Suspended > 1 {
		t.Errorf("%d bytes, %d connections of users and %d suspended lineages are left", memory, s.users.Held(), st.Suspended)
	}
	if files.Opens != st.Orphans || st.Orphans > 0 && st.Suspended == 0 || files.WaitingLocks != 0 {
		t.Errorf("%d orphans, %d suspended lineages: %+v", st.Orphans, st.Suspended, files)
	}
}

// wantNothingHeld checks the sums of a closed server.
func (c *fuzzClient) wantNothingHeld(s *Server, a *account.Account) {
	t := c.raw.t
	if memory, users := s.memory.Held()+s.held.Held(), s.users.Held(); memory != 0 || users != 0 {
		t.Errorf("%d bytes and %d connections of users are left", memory, users)
	}
	if _, whole := a.TryCharge("", allowance, account.Last); !whole {
		t.Error("memory of the connection is left")
	}
	if st := s.cfg.FS.Stats(); st.Opens != 0 || st.Locks != 0 || st.WaitingLocks != 0 || st.Stalled != 0 {
		t.Errorf("opens or locks are left: %+v", st)
	}
	if st := s.Stats(); st.Connections != 0 || st.Sessions != 0 {
		t.Errorf("%d connections and %d sessions are left", st.Connections, st.Sessions)
	}
}

// FuzzBytes sends arbitrary bytes to a server before authentication.
func FuzzBytes(f *testing.F) {
	s := fuzzServer(f)
	c := &raw{t: f}
	f.Add(c.frame(c.message(cmdNegotiate, negotiateBody(0x0311))))
	f.Add(append(c.frame((&raw{}).message(cmdNegotiate, negotiateBody(0x0302))), c.frame(c.message(cmdSessionSetup, setupBody([]byte("NTLMSSP\x00\x01\x00\x00\x00"), 0)))...))
	f.Add(smb1Negotiate("NT LM 0.12", "SMB 2.???"))
	f.Add(append(c.frame((&raw{}).message(cmdNegotiate, negotiateBody(0x0311))), append([]byte("\x00\x00\x00\x74\xfdSMB"), make([]byte, 112)...)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := pipeTo(t, s)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			io.Copy(io.Discard, c.nc)
		}()
		if err := c.nc.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
			t.Fatal(err)
		}
		c.nc.Write(in) // fails if the server has cut the connection
		c.nc.Close()
		<-drained
	})
}
