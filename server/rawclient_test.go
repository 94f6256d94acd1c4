package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/netip"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// rawClient is a client that builds its messages by hand.
type rawClient struct {
	t         testing.TB
	v         *env
	a         rdma.Adapter
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	connector rdma.Connector
	replies   rdma.MemoryRegion // a 16-byte entry for each receive
	out       rdma.MemoryRegion // source of sends
	in        rdma.MemoryRegion // target of the server's RDMA writes
	credits   int

	// The two directions of a sealed connection, after AUTH.
	sealer *seal.Sender
	opener *seal.Receiver

	params    wire.AuthParams // the server's
	sessionID [8]byte
	cookie    uint64
	sequence  uint16
	got       []wire.StatusResponse // arrived, not asked for yet
	data      []seal.Descriptor     // of all answers on a sealed connection
	lost      error
	// immediates are the received immediate data.
	immediates []uint32

	scratch struct { // so that posting allocates nothing
		sge  [1]rdma.SGE
		recv [1]rdma.ReceiveRequest
		req  [1]rdma.Request
	}
}

const (
	clientCredits = 32
	outSize       = 2 << 20
	inSize        = 4 << 20
)

// connect makes a connection that has sent nothing.
func (v *env) connect(n *negotiated) *rawClient {
	v.t.Helper()
	c, err := v.tryConnect(n)
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

func (v *env) tryConnect(n *negotiated) (*rawClient, error) {
	v.t.Helper()
	return v.tryConnectWith(n, rdma.DialConfig{})
}

func (v *env) tryConnectWith(n *negotiated, cfg rdma.DialConfig) (*rawClient, error) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := &rawClient{t: v.t, v: v, cookie: 1000}
	must := func(err error) {
		v.t.Helper()
		if err != nil {
			v.t.Fatal(err)
		}
	}
	var err error
	c.a, err = v.provider.OpenAdapter(ctx, netip.Addr{})
	must(err)
	v.t.Cleanup(func() { c.a.Close() })
	c.cq, err = c.a.CreateCompletionQueue(4096)
	must(err)
	c.qp, err = c.a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq, ReceiveDepth: 2048, InitiatorDepth: 2048,
		MaxReceiveSGE: 1, MaxInitiatorSGE: 2,
	})
	must(err)
	register := func(size int, access rdma.Access) rdma.MemoryRegion {
		mem, err := c.a.Alloc(ctx, size)
		must(err)
		r, err := c.a.RegisterMemory(ctx, mem.Bytes()[:size], access)
		must(err)
		return r
	}
	c.replies = register(sealedAnswerSize*(clientCredits+1), rdma.AccessLocalWrite)
	c.out = register(outSize, 0)
	c.in = register(inSize, rdma.AccessRemoteWrite)
	for i := range clientCredits + 1 {
		c.postReply(uint64(i))
	}
	c.connector, err = rdma.Dial(ctx, c.a, c.qp, n.addr, cfg)
	return c, err
}

func (c *rawClient) postReply(entry uint64) {
	c.scratch.sge[0] = rdma.SGE{Region: c.replies, Offset: int(entry) * sealedAnswerSize, Length: sealedAnswerSize}
	c.scratch.recv[0] = rdma.ReceiveRequest{ID: entry, SGL: c.scratch.sge[:]}
	if _, err := c.qp.PostReceive(c.scratch.recv[:]); err != nil && c.lost == nil {
		c.lost = err
	}
}

// raw sends bytes unchanged, without waiting for an answer.
func (c *rawClient) raw(msg []byte) {
	c.t.Helper()
	if c.sealer != nil {
		msg = c.sealed(msg)
	}
	copy(c.out.Bytes(), msg)
	c.post(0, len(msg))
}

// sealed returns a message as it travels on a sealed connection.
func (c *rawClient) sealed(msg []byte) []byte {
	c.t.Helper()
	var d seal.Descriptor
	data := bytes.Clone(msg[wire.HeaderSize:])
	if err := c.sealer.Data(&d, data, data); err != nil {
		c.t.Fatal(err)
	}
	record := append(bytes.Clone(msg[:wire.HeaderSize]), make([]byte, seal.Overhead)...)
	if err := c.sealer.Record(record, &d); err != nil {
		c.t.Fatal(err)
	}
	return append(record, data[:d.Transferred()]...)
}

// post sends bytes of the out region.
func (c *rawClient) post(offset, length int) {
	c.t.Helper()
	req := rdma.Request{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: c.out, Offset: offset, Length: length}}}
	if _, err := c.qp.Post([]rdma.Request{req}); err != nil {
		c.lost = err
		return
	}
	for !c.poll(func(r *rdma.Result) bool { return r.Op == rdma.OpSend }) {
	}
}

// poll waits for one completion and reports whether it is the wanted one, or the connection is
// lost.
func (c *rawClient) poll(wanted func(*rdma.Result) bool) bool {
	c.t.Helper()
	if c.lost != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var rs [1]rdma.Result
	for {
		n, err := c.cq.Poll(rs[:])
		if err != nil {
			c.t.Fatal(err)
		}
		if n == 1 {
			break
		}
		if err := c.cq.Wait(ctx, rdma.NotifyAny); err != nil {
			c.t.Fatalf("nothing came: %v", err)
		}
	}
	c.take(&rs[0])
	return c.lost != nil || wanted(&rs[0])
}

// take handles a completion.
func (c *rawClient) take(r *rdma.Result) {
	c.t.Helper()
	switch {
	case r.Status != rdma.StatusSuccess:
		c.lost = r.Status
	case r.Op == rdma.OpReceive && r.HasImmediate:
		c.immediates = append(c.immediates, r.Immediate)
		c.postReply(r.ID)
	case r.Op == rdma.OpReceive:
		b := c.replies.Bytes()[r.ID*sealedAnswerSize:][:r.Bytes]
		if c.opener != nil {
			var d seal.Descriptor
			if err := c.opener.Record(b, &d); err != nil {
				c.t.Fatalf("an answer of %d bytes: %v", r.Bytes, err)
			}
			c.data = append(c.data, d)
			b = b[:wire.StatusResponseSize]
		}
		s, err := wire.DecodeStatusResponse(b)
		if err != nil {
			c.t.Fatal(err)
		}
		c.got = append(c.got, s)
		c.postReply(r.ID)
	}
}

// send sends a message with the next cookie and sequence, and returns the
// cookie. Flags must hold INTERRUPT for that.
func (c *rawClient) send(h wire.Header, body []byte) uint64 {
	c.t.Helper()
	if h.Cookie == 0 && h.Interrupt() {
		c.cookie++
		h.Cookie = c.cookie
	}
	h.Marker = wire.Marker
	h.Sequence = c.sequence
	c.sequence++
	c.raw(append(h.AppendTo(nil), body...))
	return h.Cookie
}

// reply waits for the next status response.
func (c *rawClient) reply() wire.StatusResponse {
	c.t.Helper()
	for len(c.got) == 0 {
		c.poll(func(*rdma.Result) bool { return true })
		if c.lost != nil && len(c.got) == 0 {
			c.t.Fatalf("connection lost: %v", c.lost)
		}
	}
	s := c.got[0]
	c.got = c.got[1:]
	return s
}

// call sends a message and waits for its answer, which must be the next.
func (c *rawClient) call(h wire.Header, body []byte) wire.StatusResponse {
	c.t.Helper()
	cookie := c.send(h, body)
	s := c.reply()
	if s.Cookie != cookie {
		c.t.Fatalf("answer to %d, want %d", s.Cookie, cookie)
	}
	return s
}

// want calls and demands a status.
func (c *rawClient) want(status ntstatus.Status, info uint32, h wire.Header, body []byte) {
	c.t.Helper()
	s := c.call(h, body)
	if s.Status != uint32(status) || s.Information != info {
		c.t.Fatalf("%v: %v, information %d; want %v, %d", h.Opcode, ntstatus.Status(s.Status), s.Information, status, info)
	}
}

// wantCut demands that the server ends the connection.
func (c *rawClient) wantCut() {
	c.t.Helper()
	for c.lost == nil && len(c.got) == 0 {
		c.poll(func(*rdma.Result) bool { return true })
	}
	if len(c.got) != 0 {
		c.t.Fatalf("an answer before the end: %+v", c.got)
	}
}

// authOptions change an AUTH.
type authOptions struct {
	mutate  func(p *wire.AuthParams)
	after   func(msg []byte) []byte // after everything was signed
	unkeyed bool
	unbound bool
}

// binding returns the name of the connection, from the server's acceptance.
func (c *rawClient) binding() [wire.BindingSize]byte {
	c.t.Helper()
	private, err := c.connector.PrivateData()
	if err != nil {
		c.t.Fatal(err)
	}
	start, ok := wire.DecodeConnectionStart(private)
	if !ok {
		c.t.Fatalf("the server accepts with private data %x", private)
	}
	return start.Binding(c.v.on)
}

// authMessage makes the message of an AUTH.
func (c *rawClient) authMessage(n *negotiated, o authOptions) ([]byte, [16]byte) {
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: 4096, MaxRdmaWindowSize: 64 << 10, MaxSendBufferSize: 8240,
		MaxRecvBufferSize: 16, HeaderSize: wire.HeaderSize, Credits: clientCredits,
		Key: &n.serverKey, Signature: new([16]byte),
	}
	var nonce [16]byte
	rand.Read(nonce[:])
	if !o.unkeyed {
		p.Keyed = &wire.KeyedOption{Nonce: nonce}
	}
	if !o.unkeyed && !o.unbound {
		binding := c.binding()
		p.Binding = &binding
	}
	if o.mutate != nil {
		o.mutate(&p)
	}
	h := wire.Header{
		Opcode: wire.OpAuth, Flags: wire.FlagInterrupt, Marker: wire.Marker, Cookie: 77,
		DataVa: c.in.RemoteAddr().Addr, DataMh: uint32(c.in.RemoteAddr().Token),
	}
	params := p.AppendTo(nil)
	h.Length = uint32(wire.HeaderSize + len(params))
	msg := h.AppendTo(nil)
	if p.Keyed != nil {
		if err := wire.SignKeyed(params, n.authKey, wire.RoleClient, msg, nil); err != nil {
			c.t.Fatal(err)
		}
	}
	if p.Signature != nil {
		if err := wire.SignMD5(params); err != nil {
			c.t.Fatal(err)
		}
	}
	msg = append(msg, params...)
	if o.after != nil {
		msg = o.after(msg)
	}
	return msg, nonce
}

// auth authenticates and checks the server's side.
func (c *rawClient) auth(n *negotiated, o authOptions) {
	c.t.Helper()
	if !c.tryAuth(n, o) {
		c.t.Fatalf("connection lost: %v", c.lost)
	}
}

// tryAuth is auth; false if the connection was lost before the answer came.
func (c *rawClient) tryAuth(n *negotiated, o authOptions) bool {
	c.t.Helper()
	msg, nonce := c.authMessage(n, o)
	c.raw(msg)
	s, ok := c.status()
	if !ok {
		return false
	}
	if s.Cookie != 77 || s.Status != 0 {
		c.t.Fatalf("AUTH: %v", ntstatus.Status(s.Status))
	}
	sent, err := wire.DecodeAuthParams(msg[wire.HeaderSize:])
	if err != nil {
		c.t.Fatal(err)
	}
	block := bytes.Clone(c.in.Bytes()[:s.Information-8])
	p, err := wire.DecodeAuthParams(block)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := wire.VerifyMD5(block); err != nil {
		c.t.Fatal(err)
	}
	if !o.unkeyed {
		if err := wire.VerifyKeyed(block, n.authKey, wire.RoleServer, msg[:wire.HeaderSize], nonce[:]); err != nil {
			c.t.Fatal(err)
		}
	}
	if sent.Binding != nil && (p.Binding == nil || *p.Binding != *sent.Binding) {
		c.t.Fatalf("the server answers for the connection %x", p.Binding)
	}
	if p.Key == nil || *p.Key != n.clientKey || p.SessionID == nil || p.BaseSequence != sent.BaseSequence+1 {
		c.t.Fatalf("the server's parameters: %+v", p)
	}
	if p.Seal != 0 {
		binding := c.binding()
		c.sealer = seal.NewSender(wire.DeriveSealKey(n.authKey, wire.RoleClient, nonce, binding), seal.MaxSealed)
		c.opener = seal.NewReceiver(wire.DeriveSealKey(n.authKey, wire.RoleServer, nonce, binding))
	}
	c.params, c.sessionID, c.credits = p, *p.SessionID, int(p.Credits)
	c.sequence = p.BaseSequence
	return true
}

// client returns a client that has authenticated.
func (v *env) client() *rawClient {
	v.t.Helper()
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{})
	return c
}

// registerMessage makes a REGISTER.
func (c *rawClient) registerMessage(o *vfs.Open) (wire.Header, []byte) {
	p := wire.FIDParams{ResumeKey: o.ResumeKey(), SessionID: c.sessionID, FlagsAndAttributes: uint32(o.Options())}
	body := p.AppendTo(nil)
	return wire.Header{
		Opcode: wire.OpRegister, Flags: wire.FlagInterrupt, Length: uint32(wire.HeaderSize + len(body)),
	}, body
}

// register registers an open.
func (c *rawClient) register(o *vfs.Open) uint16 {
	c.t.Helper()
	h, body := c.registerMessage(o)
	s := c.call(h, body)
	if s.Status != 0 || s.Information == 0 || s.Information > MaxFilesPerConnection {
		c.t.Fatalf("REGISTER: %v, %d", ntstatus.Status(s.Status), s.Information)
	}
	return uint16(s.Information)
}

// readHeader is a READ into the in region at a place.
func (c *rawClient) readHeader(fid uint16, offset uint64, length uint32, at int) wire.Header {
	return wire.Header{
		Opcode: wire.OpRead, Flags: wire.FlagInterrupt, Fid: fid, Offset: offset, Length: length,
		DataVa: c.in.RemoteAddr().Addr + uint64(at), DataMh: uint32(c.in.RemoteAddr().Token),
	}
}

func writeHeader(fid uint16, offset uint64, length int) wire.Header {
	return wire.Header{Opcode: wire.OpWrite, Flags: wire.FlagInterrupt, Fid: fid, Offset: offset, Length: uint32(length)}
}

func controlHeader(op wire.Opcode, fid uint16) wire.Header {
	return wire.Header{Opcode: op, Flags: wire.FlagInterrupt, Fid: fid, Length: wire.HeaderSize}
}
