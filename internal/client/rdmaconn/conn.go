package rdmaconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// maxGather is the number of parts that one message is gathered from, its header included.
	maxGather = 16
	// CloseGrace bounds the orderly end of a connection, and that of a client.
	CloseGrace = time.Second
)

// ConnConfig are the settings of a connection.
type ConnConfig struct {
	Owner         owner
	Counts        *base.Counts
	Credits       int // messages in flight to ask for
	Mode          base.CompletionMode
	Seal          bool // seal the connection, unless the provider is confidential
	CopyThreshold int  // bytes of a read that goes through the memory of the connection
	ReadSize      int  // bytes of one READ
	Window        int  // bytes of one RDMA write of the server
	Timeout       time.Duration
}

// owner is the path that a connection belongs to.
type owner interface {
	// AllUp reports whether every path has a connection. The connections before are torn down
	// then.
	AllUp() bool
	// Bounded gives ctx the default deadline if it has none.
	Bounded(ctx context.Context) (context.Context, context.CancelFunc)
}

// Conn is one RDMA connection to a server. Its adapter is its own, so that the requests of one
// server never reach memory exposed to another. Safe for concurrent use.
//
// An operation takes a credit, which is an entry of the request table, posts its request with
// Post, and waits with Await. One of the goroutines that wait is the poller, which delivers the
// answers for all; the reader goroutine is the poller while no call is. The supervisor
// goroutine watches time limits and the end of the connection, and tears it down.
type Conn struct {
	Owner   owner
	Fabric  string // name of the provider
	Remote  rdma.Addr
	Skipped []base.Skipped // providers that are not used, with the reasons
	Adapter rdma.Adapter

	// Set by Authenticate.
	Limits  Limits
	Lineage uint64 // the lineage of the previous connection, if the server knows the outcomes of its writes
	session

	lifecycle
	cfg       ConnConfig
	info      rdma.AdapterInfo
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	connector rdma.Connector

	memory   messageMemory
	table    requestTable
	receives receiveQueue
	credits  credits
	send     sendQueue
	status   statusBlocks
	answers  receiver
	sealing  sealing
	progress progress
	buffers  buffers
	count    traffic
	watchdog watchdog
	timers   timerPool
}

// compose gives each component the others that it uses.
func (c *Conn) compose() {
	c.count.born = time.Now()
	c.lifecycle.init(c.Fabric, c.progress.poller.WakePoller)
	c.sealing.wanted = c.cfg.Seal && !c.info.Caps.Has(rdma.CapConfidential)
	c.status.init(c.cfg.Mode, c.info.Caps.Has(rdma.CapInOrderPlacement), c.sealing.wanted)
	c.memory.statusSize = wire.StatusResponseSize
	if c.sealing.wanted {
		c.memory.statusSize = sealedStatus
		c.cfg.CopyThreshold = max(c.cfg.CopyThreshold, sealedCopy)
	}
	c.receives.qp, c.receives.mr, c.receives.size = c.qp, &c.memory.recvMR, c.memory.statusSize
	reason := func(err error) error { return endReason(c.connector, err) }
	s := &c.send
	s.qp, s.life, s.memory, s.table, s.status = c.qp, &c.lifecycle, &c.memory, &c.table, &c.status
	s.count, s.single, s.counts, s.reason, s.sealed = &c.count, &c.progress.single, c.cfg.Counts, reason, &c.sealing
	s.direct = c.info.Caps.Has(rdma.CapDirectAlloc)
	if c.info.Caps.Has(rdma.CapImmediate) {
		s.immediates = math.MaxUint32
	}
	k := &c.credits
	k.table, k.receives, k.send, k.status, k.life = &c.table, &c.receives, &c.send, &c.status, &c.lifecycle
	r := &c.answers
	r.provider, r.qp, r.table, r.receives, r.credits = c.Fabric, c.qp, &c.table, &c.receives, &c.credits
	r.status, r.send, r.life, r.count, r.counts, r.sealed = &c.status, &c.send, &c.lifecycle, &c.count, c.cfg.Counts, &c.sealing
	w := &c.watchdog
	w.timeout, w.table, w.answers, w.credits, w.life, w.count = c.cfg.Timeout, &c.table, &c.answers, &c.credits, &c.lifecycle, &c.count
	p := &c.progress
	p.cq, p.answers, p.status, p.credits, p.life = c.cq, &c.answers, &c.status, &c.credits, &c.lifecycle
	p.count, p.counts, p.reason = &c.count, c.cfg.Counts, reason
	p.poller.Init(readerRest, longestRest)
	p.countProcessors()
}

// DialConn connects to remote and starts the goroutines. The connection is not authenticated yet.
// Close must be called in the end.
func DialConn(ctx context.Context, p rdma.Provider, remote rdma.Addr, cfg ConnConfig) (*Conn, error) {
	a, err := p.OpenAdapter(ctx, netip.Addr{})
	if err != nil {
		return nil, err
	}
	c := &Conn{Owner: cfg.Owner, Fabric: p.Name(), Remote: remote, Adapter: a, cfg: cfg, info: a.Info()}
	if err := c.setUp(ctx); err != nil {
		a.Close()
		return nil, err
	}
	// Reads are not part of the protocol: no limits are offered. [OP-104]
	c.connector, err = rdma.Dial(ctx, a, c.qp, remote, rdma.DialConfig{})
	if err != nil {
		c.qp.Close()
		c.memory.close()
		a.Close()
		return nil, err
	}
	c.progress.begin()
	go c.supervise()
	return c, nil
}

// setUp makes queues, memory and entries, and posts the receives: one for each message that may
// be in flight and one for a change of credits. [OP-65]
func (c *Conn) setUp(ctx context.Context) error {
	n := min(c.cfg.Credits, c.info.MaxReceiveQueueDepth-1, (c.info.MaxInitiatorQueueDepth-signalEvery)/2,
		(c.info.MaxCompletionQueueDepth-signalEvery-1)/3)
	sges := min(c.info.MaxInitiatorSGE, maxGather)
	if n < 1 || sges < 2 {
		return fmt.Errorf("the adapter's limits are too low: %w", errors.ErrUnsupported)
	}
	// The answer, and with it the credit, may arrive before the provider has completed the send:
	// twice the credits, and the sends without a completion, take places.
	sends := 2*n + signalEvery
	var err error
	if c.cq, err = c.Adapter.CreateCompletionQueue(n + 1 + sends); err != nil {
		return err
	}
	c.qp, err = c.Adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq,
		ReceiveDepth: n + 1, InitiatorDepth: sends,
		MaxReceiveSGE: 1, MaxInitiatorSGE: sges,
	})
	if err != nil {
		return err
	}
	c.compose()
	c.table.init(n, sges)
	c.status.polled = newRequestSet(n)
	c.send.init(n)
	c.receives.init(n + 1)
	if err := c.memory.allocate(ctx, c.Adapter, n, c.cfg.CopyThreshold); err != nil {
		return err
	}
	c.memory.assign(c.table.entries)
	return c.credits.init()
}

// Close ends the connection, and waits until its goroutines have ended and its memory is free.
func (c *Conn) Close() {
	c.BeginClose()
	<-c.gone
}

// BeginClose is Close that does not wait. Gone is closed in the end.
func (c *Conn) BeginClose() {
	c.send.announceEnd()
	c.Fail(net.ErrClosed)
}

// supervise runs until the connection is torn down.
func (c *Conn) supervise() {
	defer close(c.gone)
	tick := time.NewTicker(max(c.cfg.Timeout/WatchParts, time.Millisecond))
	defer tick.Stop()
	ended := c.connector.Done()
	for {
		select {
		case <-ended:
			c.Fail(c.connector.Err())
			ended = nil
		case <-tick.C:
			c.Watch()
		case <-c.down:
			c.tearDown()
			return
		}
	}
}

// tearDown frees everything. Goroutines that wait see that the connection is down.
func (c *Conn) tearDown() {
	if errors.Is(c.err, net.ErrClosed) && !errors.Is(c.err, base.ErrProtocol) {
		ctx, cancel := context.WithTimeout(context.Background(), CloseGrace)
		if c.sealing.announced.Load() {
			// The server ends the connection when it reads the announcement. A logoff that follows must not come
			// before that.
			select {
			case <-c.connector.Done():
			case <-ctx.Done():
			}
		}
		_ = c.connector.Disconnect(ctx) // a failure says that the connection has ended already
		cancel()
	}
	c.connector.Close()
	c.qp.Close()
	c.progress.reading.Wait()
	c.lifecycle.mu.Lock()
	defer c.lifecycle.mu.Unlock()
	for i := range c.table.entries {
		s := &c.table.entries[i]
		if s.ticket != nil && s.load().state() == requestPending {
			s.ticket.Owner.Unanswered(c)
		}
		s.drop()
		s.kill()
	}
	c.memory.close()
	c.sealing.close()
	c.cq.Close()
	c.buffers.tearDown(c.Adapter)
}

// Transport describes the connection.
func (c *Conn) Transport() base.Transport {
	t := base.Transport{
		Name: c.Fabric, Addr: c.Remote.String(), Keyed: c.keyed, Skipped: c.Skipped,
		Reason: "authenticated with the key of the SMB session",
	}
	if !c.keyed {
		t.Reason = "authenticated without a key: the server signs with MD5 alone"
	}
	if c.sealing.wanted {
		t.Encryption = seal.Cipher
	}
	return t
}

// endReason returns the error of a connector at the end of its connection, or else the error of a queue.
func endReason(connector rdma.Connector, err error) error {
	select {
	case <-connector.Done():
		if e := connector.Err(); e != nil {
			return e
		}
	default:
	}
	return err
}
