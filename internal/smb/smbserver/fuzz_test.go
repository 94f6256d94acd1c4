package smbserver

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

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

// FuzzRequests sends requests of an authenticated client: a command, a byte for its relation
// to the request before, for its handle and for its encryption, and a body. Each message gets as many responses
// as it has requests, or the connection ends. Each input has a new server, so that changes
// of files (a read-only attribute, say) do not affect the next input.
func FuzzRequests(f *testing.F) {
	seed := func(cmd, how byte, body []byte) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte{cmd, how}, uint16(len(body))), body...)
	}
	id := [16]byte{}
	for _, b := range [][]byte{
		seed(cmdCreate, 0, rw("x").body()),
		seed(cmdRead, 1, readBody(id, 0, 100, 0)),
		seed(cmdWrite, 1, writeBody(id, 5, []byte("abc"))),
		seed(cmdQueryDirectory, 2, findBody(id, 37, 1, "*", 1000)),
		seed(cmdQueryInfo, 1, queryBody(id, 1, 18, 0, 1000)),
		seed(cmdQueryInfo, 1, queryBody(id, 2, 5, 0, 1000)),
		seed(cmdQueryInfo, 1, queryBody(id, 3, 0, 7, 1000)),
		seed(cmdSetInfo, 1, setBody(id, 1, 10, renameInfo("y", true))),
		seed(cmdSetInfo, 1, setBody(id, 1, 4, make([]byte, 40))),
		seed(cmdSetInfo, 1, setBody(id, 1, 20, []byte{9, 0, 0, 0, 0, 0, 0, 0})),
		seed(cmdIoctl, 1, ioctlBody(id, fsctlResumeKey, nil, 100)),
		seed(cmdIoctl, 3, ioctlBody(id, fsctlTransceive, []byte("hi"), 100)),
		seed(cmdClose, 1, closeBody(id, 1)),
		seed(cmdLock, 1, lockBody(id, element{0, 1, lockShared | lockNow}, element{5, 0, lockExclusive | lockNow})),
		append(seed(cmdLock, 1, lockBody(id, element{0, 1, lockExclusive})), seed(cmdLock, 1, lockBody(id, element{0, 1, lockShared | lockExclusive}))...),
		append(seed(cmdLock, 1, lockBody(id, element{0, 1, lockExclusive})), seed(cmdLock, 1, lockBody(id, element{0, 5, lockExclusive}))...),
		seed(cmdLock, 1, lockBody(id, element{0, 1, lockUnlock})),
		seed(cmdTreeConnect, 0, connectBody("data")),
		seed(cmdTreeDisconnect, 0, []byte{4, 0, 0, 0}),
		seed(cmdSessionSetup, 0, setupBody([]byte("x"), 0)),
		seed(cmdNegotiate, 0, negotiateBody(0x0311)),
		seed(cmdLogoff, 0, []byte{4, 0, 0, 0}),
		seed(cmdRead, 9, readBody(id, 0, 100, 0)),
		append(seed(cmdLock, 1, lockBody(id, element{0, 1, lockExclusive})), seed(cmdLock, 9, lockBody(id, element{0, 5, lockExclusive}))...),
		append(seed(cmdWrite, 9, writeBody(id, 5, []byte("abc"))), seed(cmdLogoff, 8, []byte{4, 0, 0, 0})...),
		append(seed(cmdCreate, 12, rw("z").body()), seed(cmdClose, 12, closeBody(noID, 0))...),
		append(seed(cmdCreate, 0, rw("z").body()), seed(cmdClose, 4, closeBody(noID, 0))...),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c := pipeTo(t, fuzzServer(t))
		defer c.nc.Close()
		c.offer, c.plain = []smbauth.Cipher{smbauth.AES128CCM}, true
		c.mustNegotiate(0x0302)
		c.mustSetup(testUser, testPassword)
		c.mustConnect("IPC$")
		ids := [4][16]byte{3: c.mustCreate(create{name: "lwio", access: 3, share: 7, disposition: 1})}
		c.mustConnect("data")
		ids[1], ids[2] = c.mustCreate(rw("file")), c.mustCreate(create{access: 0x81, share: 7, disposition: 1, options: 1})
		for len(in) >= 4 {
			cmd, how, n := in[0], in[1], int(binary.LittleEndian.Uint16(in[2:]))
			in = in[4:]
			body := append([]byte(nil), in[:min(n, len(in))]...)
			in = in[len(body):]
			if off, ok := idOffset[cmd]; ok && len(body) >= off+16 && how&3 != 0 {
				copy(body[off:], ids[how&3][:])
			}
			if cmd == cmdCancel {
				continue
			}
			c.plain = how&8 == 0
			m := c.message(uint16(cmd), body)
			msgs := [][]byte{m}
			if how&4 != 0 {
				msgs = related(c.message(cmdCreate, rw("related").body()), m)
			}
			if !c.exchange(msgs) {
				return
			}
		}
	})
}

// exchange sends a message and reads its responses. It reports false if the server has cut
// the connection.
func (c *raw) exchange(msgs [][]byte) bool {
	if err := c.nc.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		c.t.Fatal(err)
	}
	out := c.frame(msgs...)
	sent := make(chan error, 1)
	go func() {
		_, err := c.nc.Write(out)
		sent <- err
	}()
	defer func() { <-sent }()
	for answers := 0; answers < len(msgs); {
		b, err := c.readFrame()
		if err != nil {
			c.nc.Close()
			return false
		}
		if len(b) > 4 && b[0] == 0xFD {
			if b, err = c.in.Decrypt(b); err != nil {
				c.t.Fatal(err)
			}
		}
		for {
			if len(b) < 64 {
				c.t.Fatalf("response %x", b)
			}
			if binary.LittleEndian.Uint32(b[8:]) != 0x103 {
				answers++
			} else if b[12] == cmdLock {
				c.cancel(binary.LittleEndian.Uint64(b[24:]), true) // otherwise it waits without end
			}
			next := binary.LittleEndian.Uint32(b[20:])
			if next == 0 {
				break
			}
			if int(next) > len(b) {
				c.t.Fatalf("next response at %d of %d", next, len(b))
			}
			b = b[next:]
		}
	}
	return true
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
