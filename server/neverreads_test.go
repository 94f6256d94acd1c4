package server

import (
	"context"
	"net"
	"sync"
	"testing"

	"lwio/internal/account"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/vfs"
)

// silentConn is a connection whose reads stop when deaf is closed.
type silentConn struct {
	net.Conn
	deaf, gone chan struct{}
	once       sync.Once
}

func (c *silentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.deaf:
		<-c.gone
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// messages makes a message of each kind, as often as it is called. fid is a file of 1 MiB.
func messages(c *rawClient, fid uint16, o *vfs.Open) map[wire.Opcode]func() (wire.Header, []byte) {
	in := wire.RDMARegion{DataVa: c.in.RemoteAddr().Addr, DataMh: uint32(c.in.RemoteAddr().Token), Length: 512 << 10}
	ask := func(h wire.Header) wire.Header { return by(h, completion{Cookie: 1}) }
	data := make([]byte, 32<<10)
	return map[wire.Opcode]func() (wire.Header, []byte){
		wire.OpRead: func() (wire.Header, []byte) { return ask(wire.NewRead(fid, 0, in)), nil },
		wire.OpVecRead: func() (wire.Header, []byte) {
			return ask(wire.NewVecRead(fid, 0, in.Length, 1, 4096)), in.AppendTo(nil)
		},
		wire.OpWrite: func() (wire.Header, []byte) { return ask(wire.NewWrite(fid, 0, uint32(len(data)))), data },
		wire.OpVecWrite: func() (wire.Header, []byte) {
			return ask(wire.NewCollapse(fid, 0, 64<<10, 4096)), data[:4096]
		},
		wire.OpClose:     func() (wire.Header, []byte) { return ask(wire.NewClose(fid)), nil },
		wire.OpCancel:    func() (wire.Header, []byte) { return ask(wire.NewCancel(fid)), nil },
		wire.OpAuth:      func() (wire.Header, []byte) { return ask(wire.NewAuth(67, in)), make([]byte, 67) },
		wire.OpRegister:  func() (wire.Header, []byte) { return c.registerMessage(o) },
		wire.OpCredit:    func() (wire.Header, []byte) { return ask(wire.NewCredit(0)), nil },
		wire.OpInterrupt: func() (wire.Header, []byte) { return ask(wire.NewInterrupt(1)), nil },
	}
}

// push posts a message at an offset of the out region, and does not wait until it is sent. It reports
// whether the connection still takes messages.
func (c *rawClient) push(at int, h wire.Header, body []byte) bool {
	h.Marker, h.Sequence = wire.Marker, c.sequence
	c.sequence++
	msg := append(h.AppendTo(nil), body...)
	if c.sealer != nil {
		msg = c.sealed(msg)
	}
	n := copy(c.out.Bytes()[at:], msg)
	_, err := c.qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: c.out, Offset: at, Length: n}}}})
	return err == nil
}

// A client sends messages of each kind on several connections, sealed or not, as many as it has credits, and
// takes no answer. Over TCP it reads no data either. The resources that it holds stay within the limits of
// its user, another user is served, and all resources come back at the end of the connections.
//
// Source: [LWIO §Credits] (the limits are ours)
func TestClientThatNeverReadsHoldsBoundedResources(t *testing.T) {
	for _, kind := range liveConnections {
		t.Run(kind.name, func(t *testing.T) {
			for op := wire.OpRead; op <= wire.OpInterrupt; op++ {
				t.Run(op.String(), func(t *testing.T) { testClientThatNeverReads(t, kind.on, kind.auth, op) })
			}
		})
	}
}

func testClientThatNeverReads(t *testing.T, on string, auth authOptions, op wire.Opcode) {
	v := newEnv(t, envConfig{on: on, limits: Limits{CreditBudget: 1600, ReadBufferBytes: 4 << 20, Registrations: 40, MaxRDMAWindowSize: 512 << 10}})
	var deaf []*silentConn
	if on == "iwarp" {
		v.provider = iwarp.New(&iwarp.Config{Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", remote.String())
			c := &silentConn{Conn: nc, deaf: make(chan struct{}), gone: make(chan struct{})}
			deaf = append(deaf, c)
			return c, err
		}})
	}
	o := v.file("big", make([]byte, 1<<20))
	hangUp := func() {
		for _, nc := range deaf {
			nc.Close()
		}
	}
	var silent []*rawClient
	var kinds []map[wire.Opcode]func() (wire.Header, []byte)
	for range 4 {
		n := v.negotiate(v.sess)
		c := v.connect(n)
		t.Cleanup(hangUp) // before the adapter is closed, which waits for the connection
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) {
			p.MaxRdmaWindowSize = 512 << 10
			if auth.mutate != nil {
				auth.mutate(p)
			}
		}})
		silent, kinds = append(silent, c), append(kinds, messages(c, c.register(o), o))
	}
	for i, c := range silent {
		if on == "iwarp" {
			close(deaf[i].deaf)
		}
		for at := 0; at < (c.credits-1)*(64<<10); at += 64 << 10 {
			if h, body := kinds[i][op](); !c.push(at, h, body) {
				break // cut for a violation
			}
		}
	}
	bob := newFakeSession(2)
	bob.user = "bob"
	n := v.negotiate(bob)
	good := v.connect(n)
	good.auth(n, authOptions{})
	f := v.open("good", vfs.ReadData, 0, bob)
	good.register(f)
	for name, u := range map[string]account.Usage{
		"write memory": v.e.credits.sum.Usage(), "read memory": v.e.readUsage(), "registrations": v.e.registered.Usage(),
		"connections": v.e.conns.users.Usage(),
	} {
		if u.Held > u.Limit || u.Most > u.UserLimit {
			t.Errorf("%s: %+v", name, u)
		}
	}
	hangUp()
	for _, c := range append(silent, good) {
		c.connector.Close()
	}
	eventually(t, "all is returned", func() bool {
		return int(v.e.credits.sum.Held()) == 0 && v.e.readUsage().Held == 0 && v.e.registered.Held() == 0 && v.e.conns.users.Held() == 0
	})
}
