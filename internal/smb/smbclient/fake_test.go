package smbclient

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// Ids that the fake server gives out.
const (
	fakeSession = 0x1122334455667788
	fakeTree    = 7
)

var fakeFile = smbwire.FileID{Persistent: 1, Volatile: 2}

type appender interface{ AppendTo([]byte) []byte }

// fake is a server with the behaviour that a test gives it. Its fields change the logon; on
// serves the requests after it.
type fake struct {
	t  *testing.T
	nc net.Conn

	dialect   uint16
	cipher    smbauth.Cipher // that the server chooses, if any
	negotiate func(*smbwire.NegotiateResponse)
	setup     func(*smbwire.SessionSetupResponse)
	// spoil changes a response after it is signed.
	spoil   func(h *smbwire.Header, frame []byte)
	share   smbwire.TreeConnectResponse
	credits func(h *smbwire.Header) uint16
	// on serves a request; false leaves it to the defaults of the fake.
	on func(f *fake, h smbwire.Header, body []byte) bool

	auth     smbauth.AcceptorConfig
	acceptor *smbauth.Acceptor // nil while no authentication is under way
	preauth  smbauth.PreauthHash
	signer   smbauth.Signer
	out      *smbauth.Encrypter // for responses to encrypted requests
	in       *smbauth.Decrypter
	secret   bool // the request was encrypted
	guid     [16]byte
	asked    smbwire.NegotiateRequest
	ended    sync.WaitGroup

	mu   sync.Mutex
	seen []smbwire.Header
}

// newFake returns a fake server and the connection to it.
func newFake(t *testing.T, change func(*fake)) (*fake, net.Conn) {
	client, server := net.Pipe()
	f := &fake{
		t: t, nc: server, dialect: smbwire.Dialect311, guid: [16]byte{1},
		share:   smbwire.TreeConnectResponse{ShareType: smbwire.ShareTypeDisk, MaximalAccess: 0x1F01FF},
		credits: func(h *smbwire.Header) uint16 { return h.Credits },
		auth:    smbauth.AcceptorConfig{Lookup: lookup},
	}
	if change != nil {
		change(f)
	}
	f.ended.Go(f.serve)
	t.Cleanup(func() { server.Close(); client.Close(); f.ended.Wait() })
	return f, client
}

// logon opens a session with a fake server.
func (f *fake) logon(client net.Conn, change func(*Config)) (*Session, error) {
	cfg := Config{User: testUser, Password: testPassword, Dialects: []uint16{f.dialect}}
	if change != nil {
		change(&cfg)
	}
	return New(f.t.Context(), client, "fake", cfg)
}

// fakeMount opens a session and connects to a share.
func fakeMount(t *testing.T, change func(*fake), config func(*Config)) (*fake, *Tree) {
	t.Helper()
	f, client := newFake(t, change)
	s, err := f.logon(client, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	tree, err := s.TreeConnect(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	return f, tree
}

// requests returns the headers of the requests so far.
func (f *fake) requests() []smbwire.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]smbwire.Header(nil), f.seen...)
}

// count returns the number of requests with a command so far.
func (f *fake) count(c smbwire.Command) (n int) {
	for _, h := range f.requests() {
		if h.Command == c {
			n++
		}
	}
	return n
}

func (f *fake) serve() {
	for {
		msg, err := readFrame(f.nc)
		if err != nil {
			return
		}
		if f.in != nil {
			f.secret = msg[0] == 0xFD
		}
		if f.secret {
			if msg, err = f.in.Decrypt(msg); err != nil {
				f.t.Errorf("the client sent %x: %v", msg, err)
				return
			}
		}
		for more := msg; more != nil; {
			h, one, rest, err := smbwire.Next(more)
			if err != nil {
				f.t.Errorf("the client sent %x: %v", more, err)
				return
			}
			f.mu.Lock()
			f.seen = append(f.seen, h)
			f.mu.Unlock()
			f.request(h, one)
			more = rest
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [smbwire.FrameHeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := smbwire.DecodeFrameHeader(head[:])
	if err != nil {
		return nil, err
	}
	msg := make([]byte, n)
	_, err = io.ReadFull(r, msg)
	return msg, err
}

func (f *fake) request(h smbwire.Header, msg []byte) {
	body := msg[smbwire.HeaderSize:]
	switch {
	case f.signer != nil && !f.secret && (h.Flags&smbwire.FlagSigned == 0 || !f.signer.Verify(msg)):
		f.t.Errorf("%v is not signed as it should be", h.Command)
	case f.on != nil && f.on(f, h, body):
	case h.Command == smbwire.CommandNegotiate:
		f.negotiated(h, msg)
	case h.Command == smbwire.CommandSessionSetup:
		f.logged(h, msg)
	case h.Command == smbwire.CommandTreeConnect:
		h.TreeID = fakeTree
		f.reply(h, ntstatus.Success, &f.share)
	case h.Command == smbwire.CommandIoctl:
		f.validate(h, body)
	case h.Command == smbwire.CommandCreate:
		f.reply(h, ntstatus.Success, &smbwire.CreateResponse{FileID: fakeFile, EndOfFile: 1 << 40})
	case h.Command == smbwire.CommandClose:
		f.reply(h, ntstatus.Success, &smbwire.CloseResponse{})
	case h.Command == smbwire.CommandCancel:
	case h.Command == smbwire.CommandLogoff || h.Command == smbwire.CommandEcho || h.Command == smbwire.CommandTreeDisconnect:
		f.reply(h, ntstatus.Success, smbwire.Empty{})
	default:
		f.reply(h, ntstatus.NotSupported, &smbwire.ErrorResponse{})
	}
}

// answer returns the frame of a response.
func (f *fake) answer(h smbwire.Header, st ntstatus.Status, body appender) []byte {
	h.Status, h.NextCommand, h.Signature = st, 0, [16]byte{}
	h.Flags = h.Flags&smbwire.FlagAsync | smbwire.FlagResponse
	h.Credits = f.credits(&h)
	if f.signer != nil && !f.secret {
		h.Flags |= smbwire.FlagSigned
	}
	b := body.AppendTo(h.AppendTo(make([]byte, smbwire.FrameHeaderSize)))
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	if f.signer != nil && !f.secret {
		f.signer.Sign(b[smbwire.FrameHeaderSize:])
	}
	if f.secret {
		b = f.encrypt(b[smbwire.FrameHeaderSize:])
	}
	if f.spoil != nil {
		f.spoil(&h, b)
	}
	return b
}

// encrypt returns the frame of an encrypted message.
func (f *fake) encrypt(msg []byte) []byte {
	const head = smbwire.FrameHeaderSize + smbwire.TransformHeaderSize
	b := append(make([]byte, head, head+len(msg)+smbauth.TagSize), msg...)
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	if err := f.out.Encrypt(b[smbwire.FrameHeaderSize:], fakeSession); err != nil {
		f.t.Error(err)
	}
	return b
}

// write sends bytes. An error means that the client has disconnected.
func (f *fake) write(b []byte) { _, _ = f.nc.Write(b) }

func (f *fake) reply(h smbwire.Header, st ntstatus.Status, body appender) {
	f.write(f.answer(h, st, body))
}

func (f *fake) negotiated(h smbwire.Header, msg []byte) {
	asked, err := smbwire.DecodeNegotiateRequest(bytes.Clone(msg[smbwire.HeaderSize:]))
	if err != nil {
		f.t.Error(err)
	}
	f.asked = asked
	f.preauth.Update(msg)
	r := f.chosen()
	if f.negotiate != nil {
		f.negotiate(&r)
	}
	b := f.answer(h, ntstatus.Success, &r)
	f.preauth.Update(b[smbwire.FrameHeaderSize:])
	f.write(b)
}

func (f *fake) chosen() smbwire.NegotiateResponse {
	preauth := smbwire.PreauthIntegrity{Hashes: []uint16{smbwire.HashSHA512}, Salt: []byte{1}}
	r := smbwire.NegotiateResponse{
		SecurityMode: smbwire.SigningEnabled, Dialect: f.dialect, ServerGUID: f.guid, Capabilities: smbwire.CapLargeMTU,
		MaxTransactSize: 1 << 20, MaxReadSize: 1 << 20, MaxWriteSize: 1 << 20, SecurityBuffer: new(smbauth.AcceptorConfig).ServerHint(),
		Contexts: []smbwire.NegotiateContext{
			{Type: smbwire.ContextPreauthIntegrity, Data: preauth.AppendTo(nil)},
			{Type: smbwire.ContextSigning, Data: smbwire.AppendAlgorithms(nil, smbwire.SigningAESCMAC)},
		},
	}
	if f.cipher != smbauth.NoCipher && f.dialect < smbwire.Dialect311 {
		r.Capabilities |= smbwire.CapEncryption
	} else if f.cipher != smbauth.NoCipher {
		r.Contexts = append(r.Contexts, smbwire.NegotiateContext{Type: smbwire.ContextEncryption, Data: smbwire.AppendAlgorithms(nil, uint16(f.cipher))})
	}
	return r
}

func (f *fake) logged(h smbwire.Header, msg []byte) {
	f.preauth.Update(msg)
	q, err := smbwire.DecodeSessionSetupRequest(msg[smbwire.HeaderSize:])
	if err != nil {
		f.t.Error(err)
	}
	if f.acceptor == nil {
		f.acceptor = smbauth.NewAcceptor(f.auth)
	}
	acceptor := f.acceptor
	token, done, err := acceptor.Step(q.SecurityBuffer)
	if done {
		f.acceptor = nil
	}
	h.SessionID = fakeSession
	r := smbwire.SessionSetupResponse{SecurityBuffer: token}
	if f.setup != nil {
		f.setup(&r)
	}
	switch {
	case err != nil:
		f.reply(h, ntstatus.LogonFailure, &smbwire.ErrorResponse{})
	case done && f.signer != nil: // a renewal does not change the keys
		f.reply(h, ntstatus.Success, &r)
	case done:
		keys := smbauth.DeriveKeys(f.dialect, f.cipher, acceptor.SessionKey(), f.preauth)
		f.signer = smbauth.NewSigner(smbauth.DefaultSigning(f.dialect), keys.Signing)
		f.reply(h, ntstatus.Success, &r)
		if f.cipher != smbauth.NoCipher {
			f.out, f.in = smbauth.NewEncrypter(f.cipher, keys.ServerToClient), smbauth.NewDecrypter(f.cipher, keys.ClientToServer)
		}
	default:
		b := f.answer(h, ntstatus.MoreProcessingRequired, &r)
		f.preauth.Update(b[smbwire.FrameHeaderSize:])
		f.write(b)
	}
}

// validate responds with the negotiated values.
func (f *fake) validate(h smbwire.Header, body []byte) {
	q, err := smbwire.DecodeIoctlRequest(body)
	if err != nil || q.CtlCode != smbwire.FsctlValidateNegotiateInfo {
		f.reply(h, ntstatus.NotSupported, &smbwire.ErrorResponse{})
		return
	}
	r := f.chosen()
	v := smbwire.ValidateNegotiateResponse{Capabilities: r.Capabilities, GUID: r.ServerGUID, SecurityMode: r.SecurityMode, Dialect: r.Dialect}
	f.reply(h, ntstatus.Success, &smbwire.IoctlResponse{CtlCode: q.CtlCode, FileID: q.FileID, Output: v.AppendTo(nil)})
}

// onCommand returns an on that serves one command.
func onCommand(c smbwire.Command, do func(f *fake, h smbwire.Header, body []byte)) func(*fake) {
	return func(f *fake) {
		f.on = func(f *fake, h smbwire.Header, body []byte) bool {
			if h.Command == c {
				do(f, h, body)
			}
			return h.Command == c
		}
	}
}
