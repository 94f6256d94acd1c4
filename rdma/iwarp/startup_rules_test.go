package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A request whose length differs from the bytes that follow is refused.
//
// Source: [RFC 5044 §7.1.2 rules 7 and 10]
func TestRequestOfWrongLengthIsRefused(t *testing.T) {
	plain := func(length int, private ...byte) []byte {
		b := startupBytes("Req", false, true, 1, nil, nil)
		b[18], b[19] = byte(length>>8), byte(length)
		return append(b, private...)
	}
	first := stream(t, false, true, frameWrite)
	for name, c := range map[string]struct {
		wire   []byte
		end    bool // no more bytes follow
		silent bool // no bytes follow, but TCP stays open
	}{
		"a byte more":         {plain(3, 1, 2, 3, 4), false, false},
		"a frame behind":      {append(plain(0), first...), false, false},
		"a frame behind data": {append(plain(2, 1, 2), first...), false, false},
		"limit plus one":      {plain(512, make([]byte, 513)...), false, false},
		"too many announced":  {plain(513, make([]byte, 513)...), false, false},
		"a byte less":         {plain(4, 1, 2, 3), true, false},
		"no private data":     {plain(512), true, false},
		"less, and silence":   {plain(4, 1, 2, 3), false, true},
		"short for its flag":  {append(startupBytes("Req", false, true, 2, []byte{}, nil), 1, 2, 3), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			if c.silent {
				cfg.RequestTimeout = 50 * time.Millisecond
			}
			server, l, addr := listenSide(t, &cfg, shape{depth: 4, sge: 1, buf: 4096})
			p := dialRaw(t, addr)
			p.send(c.wire)
			if c.end {
				if err := p.nc.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			p.wantGone()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := l.ConnectionRequest(ctx, server.con); rdma.StatusOf(err) != rdma.StatusCanceled {
				t.Errorf("the request was taken: %v", err)
			}
		})
	}
}

// Reserved bits in a request have no meaning. In revision 1 the flag of revision 2 has no
// meaning either.
//
// Source: [RFC 5044 §7.1.1], [RFC 6581 §6]
func TestReservedBitsAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		flags, revision byte
		want            []byte
	}{
		"revision 1": {0x3F, 1, startupBytes("Rep", false, false, 1, nil, nil)},
		"revision 2": {0x2F, 2, startupBytes("Rep", false, false, 2, nil, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			server, l, addr := listenSide(t, &Config{CRC: CRCOff}, shape{depth: 4, sge: 1, buf: 4096})
			p := dialRaw(t, addr)
			req := startupBytes("Req", false, false, c.revision, nil, []byte("abcd"))
			req[16] = c.flags
			p.send(req)
			if err := l.ConnectionRequest(t.Context(), server.con); err != nil {
				t.Fatal(err)
			}
			if got, _ := server.con.PrivateData(); string(got) != "abcd" {
				t.Errorf("private data %q", got)
			}
			if err := server.con.Accept(t.Context(), server.qp, rdma.ReadLimits{}, nil); err != nil {
				t.Fatal(err)
			}
			p.want(c.want)
		})
	}
}

// loggedConn records the steps that close a connection.
type loggedConn struct {
	net.Conn
	mu  sync.Mutex
	log []string
}

func (c *loggedConn) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, what)
}

func (c *loggedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		c.note("end")
	}
	return n, err
}

func (c *loggedConn) CloseWrite() error {
	c.note("half-close")
	return c.Conn.(*net.TCPConn).CloseWrite()
}

func (c *loggedConn) Close() error {
	c.note("close")
	return c.Conn.Close()
}

// loggedListener accepts logged connections.
type loggedListener struct {
	net.Listener
	conns chan *loggedConn
}

func (l loggedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &loggedConn{Conn: nc}
	l.conns <- c
	return c, nil
}

// A rejection carries the private data, and leaves TCP open for the peer to close.
//
// Source: [RFC 5044 §7.1.2 rule 2]
func TestRejectedPeerMayCloseFirst(t *testing.T) {
	for name, c := range map[string]struct{ req, want []byte }{
		"revision 1": {
			startupBytes("Req", false, true, 1, nil, nil),
			startupBytes("Rep", false, true, 1, nil, []byte("no")),
		},
		"revision 2": {
			startupBytes("Req", true, false, 2, []byte{0x80, 1, 0x80, 2}, nil),
			startupBytes("Rep", false, true, 2, []byte{0x80, 0, 0x80, 0}, []byte("no")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			conns := make(chan *loggedConn, 1)
			server, l, addr := listenSide(t, &Config{
				DrainTimeout: time.Hour,
				Listen: func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
					nl, err := listenTCP(ctx, local)
					return loggedListener{nl, conns}, err
				},
			}, shape{depth: 4, sge: 1, buf: 4096})
			p := dialRaw(t, addr)
			p.send(c.req)
			if err := l.ConnectionRequest(t.Context(), server.con); err != nil {
				t.Fatal(err)
			}
			if err := server.con.Reject([]byte("no")); err != nil {
				t.Fatal(err)
			}
			c.want[16] |= 0x20 // the reject bit
			p.want(c.want)
			p.send([]byte("a word of another protocol"))
			if err := p.nc.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			p.wantGone()
			server.a.Close()
			nc := <-conns
			nc.mu.Lock()
			defer nc.mu.Unlock()
			if want := []string{"end", "close"}; !slices.Equal(nc.log, want) {
				t.Errorf("%q, want %q", nc.log, want)
			}
		})
	}
}

// Rejected peers above the limit of start-ups are closed at once. Close waits for all
// other rejected peers together.
//
// Source: [RFC 5042 §6.4]
func TestRejectedPeersAreDrainedTogether(t *testing.T) {
	server, l, addr := listenSide(t, &Config{DrainTimeout: time.Hour, MaxStartups: 2}, shape{depth: 4, sge: 1, buf: 4096})
	var peers []*rawPeer
	for range 3 {
		p := dialRaw(t, addr)
		p.send(startupBytes("Req", false, true, 1, nil, nil))
		con := connectorOf(t, server)
		if err := l.ConnectionRequest(t.Context(), con); err != nil {
			t.Fatal(err)
		}
		if err := con.Reject(nil); err != nil {
			t.Fatal(err)
		}
		if reply, err := readStartup(p.nc, true); err != nil || !reply.Reject {
			t.Fatal(reply, err)
		}
		peers = append(peers, p)
	}
	peers[2].wantGone()
	for _, p := range peers[:2] {
		p.nc.Close()
	}
	server.a.Close()
}

// Every step of the start-up has a time limit.
//
// Source: [RFC 5044 §7.1.2 rule 9], [RFC 5042 §6.4]
func TestStartupStepsHaveTimeLimits(t *testing.T) {
	short := Config{ReplyTimeout: time.Millisecond, WriteTimeout: time.Millisecond, Revision: 2}
	reply := startupBytes("Rep", false, true, 2, []byte{0x80, 0, 0x80, 0}, nil)
	for name, answer := range map[string][]byte{"no reply": nil, "half a reply": reply[:10], "no private data": append(reply[:18:18], 0, 9, 1, 2)} {
		t.Run(name, func(t *testing.T) {
			addr := rawListener(t, func(p *rawPeer) {
				if _, err := readStartup(p.nc, false); err == nil {
					p.send(answer)
				}
				p.wantGone()
			})
			client := newSide(t, &short, shape{depth: 4, sge: 1, buf: 4096})
			err := client.con.Connect(t.Context(), client.qp, addr, rdma.ReadLimits{}, nil)
			var timeout net.Error
			if rdma.StatusOf(err) != rdma.StatusIOTimeout || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Error(err)
			}
		})
	}
	t.Run("request not read", func(t *testing.T) {
		cfg := short
		ours, theirs := net.Pipe()
		defer theirs.Close()
		cfg.Dial = func(context.Context, *net.TCPAddr, *net.TCPAddr) (net.Conn, error) { return ours, nil }
		client := newSide(t, &cfg, shape{depth: 4, sge: 1, buf: 4096})
		err := client.con.Connect(t.Context(), client.qp, rdma.IPAddr(Name, netip.AddrPortFrom(loopback, 1)), rdma.ReadLimits{}, nil)
		if rdma.StatusOf(err) != rdma.StatusIOTimeout {
			t.Error(err)
		}
	})
	t.Run("reply not read", func(t *testing.T) {
		server := newSide(t, &short, shape{depth: 4, sge: 1, buf: 4096})
		ours, theirs := net.Pipe()
		defer theirs.Close()
		a := server.a.(*adapter)
		pair := a.PairOf(server.qp)
		if err := pair.Reserve("test"); err != nil {
			t.Fatal(err)
		}
		defer pair.Unreserve()
		r := &request{a, ours, frame.Startup{Revision: 1}}
		if _, err := r.Accept(t.Context(), pair, rdma.ReadLimits{}, nil, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A failed negotiation, or a refused acceptance, is reported by a Terminate instead of
// the first message, with the agreed markers and CRC.
//
// Source: [RFC 6581 §9.1], [RFC 6581 §9.2], [RFC 5044 §4.3]
func TestFailedNegotiationSendsTerminate(t *testing.T) {
	const header = "0016 4147 00000000 00000002 00000001 00000000"
	for name, c := range map[string]struct {
		reply []byte
		want  string
		cause error
		after func(rdma.Connector) error
	}{
		"no common message":    {[]byte{0x80, 0, 0x40, 0}, "20070000", errNoReady, nil},
		"no message at all":    {[]byte{0x80, 0, 0x00, 0}, "20070000", errNoReady, nil},
		"too many reads":       {[]byte{0x80, 0, 0x80, 4}, "20060000", errDepth, nil},
		"rejected by this one": {[]byte{0x80, 0, 0x80, 0}, "20050000", nil, func(c rdma.Connector) error { return c.Reject(nil) }},
		"closed":               {[]byte{0xC0, 0, 0x00, 0}, "20050000", nil, rdma.Connector.Close},
	} {
		for i := range 4 {
			markers, crc := i&1 != 0, i&2 != 0
			t.Run(name, func(t *testing.T) {
				done := make(chan struct{})
				addr := rawListener(t, func(p *rawPeer) {
					defer close(done)
					if _, err := readStartup(p.nc, false); err != nil {
						t.Error(err)
					}
					p.send(startupBytes("Rep", markers, crc, 2, c.reply, nil))
					p.want(stream(t, markers, crc, header+c.want))
					p.wantEnd()
				})
				client := newSide(t, &Config{Revision: 2, CRC: CRCOff, Markers: true}, shape{depth: 4, sge: 1, buf: 4096})
				err := client.con.Connect(t.Context(), client.qp, addr, rdma.ReadLimits{Inbound: 3}, nil)
				if !errors.Is(err, c.cause) {
					t.Errorf("%v, want %v", err, c.cause)
				}
				if c.after != nil {
					if err := c.after(client.con); err != nil {
						t.Error(err)
					}
				}
				<-done
				if err := client.qp.(*queuePair).Reserve("test"); err != nil {
					t.Error("the queue pair is in use:", err)
				}
			})
		}
	}
}

// If no ready-to-receive message is agreed on, TCP is closed without a message.
//
// Source: [RFC 5044 §7.1.2 rule 3]
func TestFailedNegotiationClosesSilently(t *testing.T) {
	done := make(chan struct{})
	addr := rawListener(t, func(p *rawPeer) {
		defer close(done)
		_, _ = readStartup(p.nc, false)
		p.send(startupBytes("Rep", false, true, 1, nil, nil))
		p.wantEnd()
	})
	client := newSide(t, &Config{Revision: 1}, shape{depth: 4, sge: 1, buf: 4096})
	if err := client.con.Connect(t.Context(), client.qp, addr, rdma.ReadLimits{}, nil); err != nil {
		t.Fatal(err)
	}
	client.con.Close()
	<-done
}

// Frames that arrive together with the reply are handled as frames.
//
// Source: [RFC 5044 §7.1.2 rule 3]
func TestFramesRightBehindTheReplyAreRead(t *testing.T) {
	reply := startupBytes("Rep", false, true, 1, nil, []byte("ab"))
	addr := rawListener(t, func(p *rawPeer) {
		if _, err := readStartup(p.nc, false); err == nil {
			p.send(append(reply, stream(t, false, true, fmt.Sprintf(frameHi, 1))...))
		}
		p.wantEnd()
	})
	client := newSide(t, &Config{Revision: 1}, shape{depth: 4, sge: 1, buf: 4096})
	client.recv(1, 0, 8)
	if _, err := rdma.Dial(t.Context(), client.a, client.qp, addr, rdma.DialConfig{}); err != nil {
		t.Fatal(err)
	}
	if r := client.want(rdma.OpReceive, 1, rdma.StatusSuccess); r.Bytes != 2 || string(client.buf[:2]) != "hi" {
		t.Errorf("%+v %q", r, client.buf[:2])
	}
	client.con.Close()
	client.qp.Close()
}
