package server

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// rawSMB is an SMB client of dialect 3.0.2 that asks for persistent handles. It has one request in
// flight.
type rawSMB struct {
	t       *testing.T
	nc      net.Conn
	id      uint64
	session uint64
	tree    uint32
	signer  smbauth.Signer
	app     [16]byte
}

// dialSMB logs a client with that GUID on, which names its previous session, or 0.
func dialSMB(t *testing.T, addr net.Addr, guid byte, previous uint64) *rawSMB {
	t.Helper()
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := &rawSMB{t: t, nc: nc}
	n := smbwire.NegotiateRequest{SecurityMode: smbwire.SigningEnabled, ClientGUID: [16]byte{guid}, Dialects: []uint16{smbwire.Dialect302}}
	c.want(ntstatus.Success, smbwire.CommandNegotiate, n.AppendTo(nil))
	i := smbauth.NewInitiator(smbauth.InitiatorConfig{User: "alice", Password: "secret", TargetSPN: "cifs/x"})
	var in []byte
	for {
		out, _, err := i.Step(in)
		if err != nil {
			t.Fatal(err)
		}
		q := smbwire.SessionSetupRequest{SecurityMode: 1, PreviousSessionID: previous, SecurityBuffer: out}
		h, body := c.call(smbwire.CommandSessionSetup, q.AppendTo(nil))
		r, err := smbwire.DecodeSessionSetupResponse(body)
		if err != nil {
			t.Fatal(err, h.Status)
		}
		in, c.session = r.SecurityBuffer, h.SessionID
		if h.Status == ntstatus.Success {
			break
		}
	}
	if _, _, err := i.Step(in); err != nil {
		t.Fatal(err)
	}
	keys := smbauth.DeriveKeys(smbwire.Dialect302, smbauth.NoCipher, i.SessionKey(), smbauth.PreauthHash{})
	c.signer, c.app = smbauth.NewSigner(smbauth.DefaultSigning(smbwire.Dialect302), keys.Signing), keys.Application
	return c
}

// call sends a request and returns its final response.
func (c *rawSMB) call(command smbwire.Command, body []byte) (smbwire.Header, []byte) {
	c.t.Helper()
	c.send(command, body)
	return c.answer()
}

// send sends a request.
func (c *rawSMB) send(command smbwire.Command, body []byte) {
	c.t.Helper()
	h := smbwire.Header{CreditCharge: 1, Command: command, Credits: 8, MessageID: c.id, TreeID: c.tree, SessionID: c.session}
	c.id++
	if c.signer != nil {
		h.Flags |= smbwire.FlagSigned
	}
	msg := append(h.AppendTo(make([]byte, 4)), body...)
	if c.signer != nil {
		c.signer.Sign(msg[4:])
	}
	binary.BigEndian.PutUint32(msg, uint32(len(msg)-4))
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Write(msg); err != nil {
		c.t.Fatal(err)
	}
}

// answer returns the next final response.
func (c *rawSMB) answer() (smbwire.Header, []byte) {
	c.t.Helper()
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.nc, head[:]); err != nil {
			c.t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.nc, b); err != nil {
			c.t.Fatal(err)
		}
		h, err := smbwire.DecodeHeader(b)
		if err != nil {
			c.t.Fatal(err)
		}
		if h.Status != ntstatus.Pending {
			return h, b[smbwire.HeaderSize:]
		}
	}
}

// want is call, and fails the test unless the status is want.
func (c *rawSMB) want(want ntstatus.Status, command smbwire.Command, body []byte) (smbwire.Header, []byte) {
	c.t.Helper()
	h, body := c.call(command, body)
	if h.Status != want {
		c.t.Fatalf("%v: %v, want %v", command, h.Status, want)
	}
	return h, body
}

// connect makes a share the tree of the requests that follow.
func (c *rawSMB) connect(share string) {
	c.t.Helper()
	path, _ := smbwire.UTF16(`\\host\` + share)
	q := smbwire.TreeConnectRequest{Path: path}
	h, _ := c.want(ntstatus.Success, smbwire.CommandTreeConnect, q.AppendTo(nil))
	c.tree = h.TreeID
}

// create opens a file or pipe with a context, if its name is not empty.
func (c *rawSMB) create(name string, x smbwire.CreateContext) smbwire.FileID {
	c.t.Helper()
	text, _ := smbwire.UTF16(name)
	q := smbwire.CreateRequest{
		ImpersonationLevel: smbwire.ImpersonationImpersonation, DesiredAccess: 3, ShareAccess: 7, CreateDisposition: 3, Name: text,
	}
	if x.Name != "" {
		q.Contexts = []smbwire.CreateContext{x}
	}
	_, body := c.want(ntstatus.Success, smbwire.CommandCreate, q.AppendTo(nil))
	r, err := smbwire.DecodeCreateResponse(body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.FileID
}

// persistent opens a file as a persistent handle.
func (c *rawSMB) persistent(name string, guid byte) smbwire.FileID {
	c.t.Helper()
	d := smbwire.DurableRequest{Flags: smbwire.DurablePersistent, CreateGUID: [16]byte{guid}}
	return c.create(name, smbwire.CreateContext{Name: smbwire.CreateContextDurableV2, Data: d.AppendTo(nil)})
}

// reclaim takes a persistent handle over.
func (c *rawSMB) reclaim(id smbwire.FileID, guid byte) smbwire.FileID {
	c.t.Helper()
	d := smbwire.DurableReconnect{FileID: id, Flags: smbwire.DurablePersistent, CreateGUID: [16]byte{guid}}
	return c.create("", smbwire.CreateContext{Name: smbwire.CreateContextDurableV2Connect, Data: d.AppendTo(nil)})
}

// ioctl returns the output of a control code.
func (c *rawSMB) ioctl(id smbwire.FileID, code uint32, in []byte) []byte {
	c.t.Helper()
	q := smbwire.IoctlRequest{CtlCode: code, FileID: id, MaxOutputResponse: 60000, Flags: smbwire.IoctlIsFSCTL, Input: in}
	_, body := c.want(ntstatus.Success, smbwire.CommandIoctl, q.AppendTo(nil))
	r, err := smbwire.DecodeIoctlResponse(body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Output
}
