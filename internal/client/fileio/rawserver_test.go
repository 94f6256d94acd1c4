package fileio

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// onEach runs a test once over each provider.
func onEach(t *testing.T, run func(t *testing.T, on string)) {
	for _, p := range defaults() {
		t.Run(p.Name(), func(t *testing.T) { run(t, p.Name()) })
	}
}

// rawServer speaks LWIO over a provider, as the text says unless a test changes its
// answers. It shares nothing with the real server.
type rawServer struct {
	t     *testing.T
	on    string // name of the provider
	share *fakeShare
	sess  *fakeSession

	// Fields that a test may set before the client connects.
	mode      base.CompletionMode // of the clients, Interrupt unless set
	grant     uint16
	window    uint32
	recvSize  uint32
	textOnly  bool                                              // no keyed option, and no nonce of the connection
	unbound   bool                                              // no nonce of the connection
	echoes    bool                                              // has the replay cache of lost connections
	params    func(p *wire.AuthParams)                          // before signing
	signed    func(b []byte) []byte                             // after signing
	authReply func(information, status uint32) (uint32, uint32) // of AUTH
	handle    func(c *rawConn, h wire.Header, body []byte) bool // true: nothing else is done
	message   func(c *rawConn, msg []byte) bool                 // true: nothing else is done
	macKey    []byte                                            // instead of the session's
	echo      func(nonce [16]byte) [16]byte                     // of the client's nonce in the MAC

	adapter  rdma.Adapter
	listener rdma.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu                   sync.Mutex
	clientKey, serverKey [16]byte              // of the last NEGOTIATE
	keys                 map[[16]byte][16]byte // the client's of each, by the server's
	conns                []*rawConn
	accepted             chan *rawConn
}

// newRawServer starts a server of the share, over the provider of that name, and a
// session that leads to it.
func newRawServer(t *testing.T, on string, share *fakeShare) *rawServer {
	t.Helper()
	s := &rawServer{t: t, on: on, share: share, mode: base.Interrupt, grant: 16, window: 64 << 10, recvSize: 8 << 10, accepted: make(chan *rawConn, 64), keys: make(map[[16]byte][16]byte)}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	providers := defaults()
	p := providers[slices.IndexFunc(providers, func(p rdma.Provider) bool { return p.Name() == on })]
	var err error
	if s.adapter, err = p.OpenAdapter(ctx, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	if s.listener, err = rdma.Listen(ctx, s.adapter, rdma.Addr{}, 0); err != nil {
		t.Fatal(err)
	}
	at, err := s.listener.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	s.sess = &fakeSession{
		share: share, appKey: []byte("0123456789abcdef"),
		offers: []wire.AddressBlock{{Name: on, Instances: []wire.NetAddress{addressOf(at)}}},
		onKeys: s.negotiated,
	}
	s.running.Add(1)
	go s.accept(ctx)
	t.Cleanup(s.Close)
	return s
}

// negotiated notes the keys of a NEGOTIATE. Several connections of a client may be between
// that and their AUTH at the same time.
func (s *rawServer) negotiated(client, server [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clientKey, s.serverKey = client, server
	s.keys[server] = client
}

// addressOf is how NEGOTIATE says where a listener is.
//
// Source: [OP-38b]
func addressOf(at rdma.Addr) wire.NetAddress {
	if at.Name != "" {
		return wire.NetAddress{HostAddress: at.Host[:], Discriminator: []byte(at.Name)}
	}
	return wire.NetAddress{
		HostAddress: at.AddrPort.Addr().AsSlice(), Discriminator: binary.BigEndian.AppendUint16(nil, at.AddrPort.Port()),
	}
}

// dial makes a client of the server. It replaces no lost connection unless cfg says for
// how long calls wait for that.
func (s *rawServer) dial(cfg *base.Config) (*Client, error) {
	full := cfg.WithDefaults()
	if full.Providers == nil {
		full.Providers = defaults()
	}
	if cfg == nil || cfg.ReconnectTimeout == 0 {
		full.ReconnectTimeout = -1
	}
	full.Completion = s.mode
	c, err := newClient(s.t.Context(), s.sess, &testTarget, full)
	if err == nil {
		s.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// connect makes a client that has RDMA. A test without the time limits of requests has a limit of
// its own.
func (s *rawServer) connect(cfg base.Config) *Client {
	s.t.Helper()
	if cfg.Timeout >= time.Hour {
		limitTest(s.t)
	}
	c, err := s.dial(&cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if tr := c.Transport(); !tr.RDMA() && c.Stats().Lost == 0 {
		s.t.Fatal(tr)
	}
	return c
}

// holdReads keeps the server from answering reads at offset 0. Each function from the
// channel, which holds n, answers one.
func (s *rawServer) holdReads(n int) <-chan func() {
	held := make(chan func(), n)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead || h.Offset != 0 {
			return false
		}
		held <- func() { c.answer(h, body) }
		return true
	}
	return held
}

func (s *rawServer) Close() {
	s.stop()
	s.listener.Close()
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		c.cut()
	}
	s.running.Wait()
	s.adapter.Close()
}

func (s *rawServer) accept(ctx context.Context) {
	defer s.running.Done()
	for {
		connector, err := s.adapter.CreateConnector()
		if err != nil {
			return
		}
		if err := s.listener.ConnectionRequest(ctx, connector); err != nil {
			connector.Close()
			return
		}
		if err := s.start(ctx, connector); err != nil {
			connector.Close()
		}
	}
}

// rawConn is one connection of a rawServer. One goroutine serves it.
type rawConn struct {
	s         *rawServer
	connector rdma.Connector
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	recv      rdma.MemoryRegion
	recvSize  int // bytes of a receive

	mu       sync.Mutex // guards the following fields; tests post too
	regions  map[uint64]rdma.MemoryRegion
	nextID   uint64
	fids     []*fakeFile
	messages []wire.Header // all that came

	gone      chan struct{} // closed when it is over
	completed int           // I/O that was answered with reply
	armed     uint64        // the cookie of the INTERRUPT that waits
	cutOnce   sync.Once
}

const rawReceives = 64

func (s *rawServer) start(ctx context.Context, connector rdma.Connector) error {
	s.mu.Lock()
	size := int(s.recvSize) + wire.HeaderSize
	s.mu.Unlock()
	c := &rawConn{s: s, connector: connector, recvSize: size, regions: map[uint64]rdma.MemoryRegion{}, gone: make(chan struct{})}
	var err error
	if c.cq, err = s.adapter.CreateCompletionQueue(1024); err != nil {
		return err
	}
	c.qp, err = s.adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq, ReceiveDepth: rawReceives, InitiatorDepth: 512, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		return err
	}
	if c.recv, err = s.adapter.RegisterMemory(ctx, make([]byte, rawReceives*c.recvSize), rdma.AccessLocalWrite); err != nil {
		return err
	}
	for i := range rawReceives {
		if err := c.post(uint64(i)); err != nil {
			return err
		}
	}
	if err := connector.Accept(ctx, c.qp, rdma.ReadLimits{}, s.privateData()); err != nil {
		c.qp.Close()
		c.cq.Close()
		return err
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	s.accepted <- c
	s.running.Add(1)
	go c.serve(ctx)
	return nil
}

func (c *rawConn) post(id uint64) error {
	_, err := c.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, SGL: []rdma.SGE{{Region: c.recv, Offset: int(id) * c.recvSize, Length: c.recvSize}}}})
	return err
}

// cut ends the connection as if the cable had been.
func (c *rawConn) cut() { c.cutOnce.Do(func() { c.connector.Close() }) }

func (c *rawConn) serve(ctx context.Context) {
	defer c.s.running.Done()
	defer close(c.gone)
	defer c.cq.Close()
	defer c.qp.Close()
	defer c.cut()
	var results [16]rdma.Result
	for {
		n, err := c.cq.Poll(results[:])
		if n == 0 && err == nil {
			err = c.cq.Wait(ctx, rdma.NotifyAny)
		}
		if err != nil {
			return
		}
		for _, r := range results[:n] {
			if r.Status != rdma.StatusSuccess || !c.take(r) {
				return
			}
		}
	}
}

func (c *rawConn) take(r rdma.Result) bool {
	if r.Op != rdma.OpReceive {
		c.mu.Lock()
		mr := c.regions[r.ID]
		delete(c.regions, r.ID)
		c.mu.Unlock()
		mr.Close()
		return true
	}
	msg := append([]byte(nil), c.recv.Bytes()[int(r.ID)*c.recvSize:][:r.Bytes]...)
	if c.post(r.ID) != nil {
		return false
	}
	if c.s.message != nil && c.s.message(c, msg) {
		return true
	}
	var h wire.Header
	err := h.Decode(msg)
	if err != nil {
		c.s.t.Errorf("the client sent %x: %v", msg, err)
		return false
	}
	c.mu.Lock()
	c.messages = append(c.messages, h)
	c.mu.Unlock()
	body := msg[wire.HeaderSize:]
	if c.s.handle != nil && c.s.handle(c, h, body) {
		return true
	}
	c.answer(h, body)
	return true
}

// answer follows the text.
func (c *rawConn) answer(h wire.Header, body []byte) {
	switch h.Opcode {
	case wire.OpAuth:
		c.auth(h, body)
	case wire.OpRegister:
		p, err := wire.DecodeFIDParams(body)
		if err != nil {
			c.s.t.Error(err)
		}
		c.s.share.mu.Lock()
		f := c.s.share.opens[p.ResumeKey]
		c.s.share.mu.Unlock()
		if f == nil {
			c.status(h.Cookie, 0, uint32(ntstatus.ObjectNameNotFound))
			return
		}
		c.mu.Lock()
		c.fids = append(c.fids, f)
		fid := len(c.fids)
		c.mu.Unlock()
		c.status(h.Cookie, uint32(fid), 0)
	case wire.OpRead:
		buf := make([]byte, h.Length)
		n, err := c.file(h.Fid).ReadAt(buf, int64(h.Offset))
		if n > 0 {
			c.write(h.DataVa, h.DataMh, buf[:n])
		}
		c.reply(h, uint32(n), uint32(ntstatus.Of(err)))
	case wire.OpVecRead:
		if err := h.CheckRegions(body, 1); err != nil {
			c.s.t.Error(err)
		}
		buf := make([]byte, h.Length)
		n, err := c.file(h.Fid).ReadAt(buf, int64(h.Offset))
		for i, rest := 0, buf[:n]; len(rest) > 0; i++ {
			r := wire.RegionAt(body, i)
			part := slices.Clip(rest[:min(len(rest), int(r.Length))])
			c.write(r.DataVa, r.DataMh, part)
			rest = rest[len(part):]
		}
		c.reply(h, uint32(n), uint32(ntstatus.Of(err)))
	case wire.OpWrite, wire.OpVecWrite:
		n, err := c.file(h.Fid).WriteAt(body, int64(h.Offset))
		c.reply(h, uint32(n), uint32(ntstatus.Of(err)))
	case wire.OpInterrupt:
		c.interrupt(h)
	case wire.OpCredit:
		status := uint32(0)
		if int64(h.Offset) < 0 {
			status = wire.NotifyCredit
		}
		c.status(h.Cookie, 0, status)
	default:
		c.status(h.Cookie, 0, 0)
	}
}

func (c *rawConn) file(fid uint16) *fakeFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fids[fid-1]
}

// reply completes a request of I/O as its header asks, and then the INTERRUPT that waits for any
// completion.
func (c *rawConn) reply(h wire.Header, information, status uint32) {
	if h.Interrupt() {
		c.status(h.Cookie, information, status)
	} else {
		ios := wire.IOStatusBlock{Information: information, Status: status}
		c.write(h.IosVa, h.IosMh, ios.AppendTo(nil))
	}
	c.wake()
}

// wake counts a completion, and completes the INTERRUPT that waits for one.
func (c *rawConn) wake() {
	c.mu.Lock()
	c.completed++
	armed := c.armed
	c.armed = 0
	c.mu.Unlock()
	if armed != 0 {
		c.status(armed, 0, 0)
	}
}

// interrupt answers INTERRUPT at once if the client has missed a completion, else
// with the next one.
func (c *rawConn) interrupt(h wire.Header) {
	c.mu.Lock()
	asked := 0
	for _, m := range c.messages {
		if m.Opcode.IO() {
			asked++
		}
	}
	if asked-c.completed >= int(h.Credits) {
		c.armed = h.Cookie
		h.Cookie = 0
	}
	c.mu.Unlock()
	if h.Cookie != 0 {
		c.status(h.Cookie, 0, 0)
	}
}

// status sends a status message.
func (c *rawConn) status(cookie uint64, information, status uint32) {
	r := wire.StatusResponse{Cookie: cookie, Information: information, Status: status}
	c.send(r.AppendTo(nil))
}

// send sends any message.
func (c *rawConn) send(msg []byte) {
	c.request(rdma.Request{Op: rdma.OpSend}, msg)
}

// write puts data into the client's memory.
func (c *rawConn) write(va uint64, mh uint32, data []byte) {
	c.request(rdma.Request{Op: rdma.OpWrite, Remote: rdma.RemoteAddr{Addr: va, Token: rdma.RemoteToken(mh)}}, data)
}

// request posts data from memory that lives until the request is done. An error is
// the end of the connection, which the reader sees.
func (c *rawConn) request(r rdma.Request, data []byte) {
	mr, err := c.s.adapter.RegisterMemory(context.Background(), append(data, 0), 0)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextID++
	r.ID = c.nextID
	if len(data) > 0 {
		r.SGL = []rdma.SGE{{Region: mr, Length: len(data)}}
	}
	c.regions[r.ID] = mr
	_, _ = c.qp.Post([]rdma.Request{r})
}

// all returns the headers of all messages.
func (c *rawConn) all() []wire.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// seen returns the headers of all messages of one kind.
func (c *rawConn) seen(op wire.Opcode) (list []wire.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.messages {
		if h.Opcode == op {
			list = append(list, h)
		}
	}
	return list
}

// start is the nonce of each connection of a rawServer.
var start = wire.ConnectionStart{Nonce: [16]byte{7, 7, 7}}

// privateData is the private data with which the server accepts a connection.
func (s *rawServer) privateData() []byte {
	if s.textOnly || s.unbound {
		return nil
	}
	return start.AppendTo(nil)
}

// auth answers AUTH.
func (c *rawConn) auth(h wire.Header, body []byte) {
	s := c.s
	client, err := wire.DecodeAuthParams(body)
	if err == nil {
		err = client.CheckClient()
	}
	var serverKey, clientKey [16]byte
	if err == nil {
		s.mu.Lock()
		serverKey = *client.Key
		known := false
		if clientKey, known = s.keys[serverKey]; !known {
			s.t.Error("the client has another key")
		}
		s.mu.Unlock()
	}
	key := wire.DeriveAuthKey(s.sess.appKey, clientKey, serverKey)
	if err == nil {
		err = wire.VerifyMD5(body)
	}
	if err == nil && s.sess.appKey != nil {
		err = wire.VerifyKeyed(body, key, wire.RoleClient, h.AppendTo(nil), nil)
	}
	if err != nil {
		s.t.Errorf("AUTH of the client: %v", err)
	}
	if binding := start.Binding(s.on); s.privateData() != nil && s.sess.appKey != nil && (client.Binding == nil || *client.Binding != binding) {
		s.t.Errorf("AUTH of the client is bound to %x, want %x", client.Binding, binding)
	}
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: 4096, BaseSequence: client.BaseSequence + 1, MaxRdmaWindowSize: s.window, MaxSendBufferSize: 16,
		MaxRecvBufferSize: s.recvSize, HeaderSize: wire.HeaderSize, Credits: min(s.grant, client.Credits),
		Key: &clientKey, SessionID: &[8]byte{9, 8, 7}, Signature: new([16]byte),
	}
	if !s.textOnly {
		p.Binding, p.Keyed = client.Binding, &wire.KeyedOption{Nonce: [16]byte{1}}
	}
	if s.echoes {
		p.PreviousSessionID = client.PreviousSessionID
	}
	if s.params != nil {
		s.params(&p)
	}
	out := c.sign(&p, &client, h, key)
	if s.signed != nil {
		out = s.signed(out)
	}
	information, status := wire.AuthInformation(len(out)), uint32(0)
	if s.authReply != nil {
		information, status = s.authReply(information, status)
	}
	if status == 0 {
		c.write(h.DataVa, h.DataMh, out)
	}
	c.status(h.Cookie, information, status)
}

func (c *rawConn) sign(p, client *wire.AuthParams, h wire.Header, key []byte) []byte {
	out := p.AppendTo(nil)
	if p.Keyed != nil {
		nonce := client.Keyed.Nonce
		if c.s.echo != nil {
			nonce = c.s.echo(nonce)
		}
		if c.s.macKey != nil {
			key = c.s.macKey
		}
		if err := wire.SignKeyed(out, key, wire.RoleServer, h.AppendTo(nil), nonce[:]); err != nil {
			c.s.t.Error(err)
		}
	}
	if err := wire.SignMD5(out); err != nil {
		c.s.t.Error(err)
	}
	return out
}
