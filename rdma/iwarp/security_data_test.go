package iwarp

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A peer sees only the data that was sent to it. Memory of Alloc is zero. Padding is
// zero, and so is the CRC field without CRC.
//
// Source: [RFC 5042 §6.3.2], [RFC 5044 §4.1]
func TestSecurity09Stale(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	for range 3 {
		m, err := e.a.Alloc(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Bytes(), make([]byte, len(m.Bytes()))) {
			t.Fatal("memory of Alloc is not zero")
		}
		for i := range m.Bytes() {
			m.Bytes()[i] = 0xEE
		}
		m.Close()
	}
	secret := bytes.Repeat([]byte{0xEE}, 256)
	for n := range 8 {
		for i := range uint64(3) { // fills the buffers that frames are made in
			e.post(rdma.Request{Op: rdma.OpSend, ID: i, Flags: rdma.FlagInline, Inline: secret})
			if _, _, err := p.receive(); err != nil {
				t.Fatal(err)
			}
			e.want(rdma.OpSend, i, rdma.StatusSuccess)
		}
		e.post(rdma.Request{Op: rdma.OpSend, ID: 99, Flags: rdma.FlagInline, Inline: make([]byte, n)})
		got := make([]byte, frame.FPDUSize(frame.UntaggedSize+n))
		if _, err := io.ReadFull(p.nc, got); err != nil {
			t.Fatal(err)
		}
		if tail := got[2+frame.UntaggedSize:]; !bytes.Equal(tail, make([]byte, len(tail))) {
			t.Errorf("behind %d bytes stands %x", n, tail[n:])
		}
		e.want(rdma.OpSend, 99, rdma.StatusSuccess)
	}
}

// The window is invalid before the message that invalidates it is delivered. The program
// can then trust the content of the memory.
//
// Source: [RFC 5042 §6.3.3], [RFC 5040 §5.3]
func TestSecurity10RevokeFirst(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.recv(1, 4096, 8)
	_, at := e.bindWindow(0, 8, rdma.FlagAllowWrite)
	write := frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true)
	send := frame.UntaggedSegment(frame.OpSendInvalidate, frame.QueueSend, 1, 0, true)
	send.STag = uint32(at.Token)
	burst := append(p.frame(write, []byte("checked!")), p.frame(send, nil)...)
	p.send(append(burst, p.frame(write, []byte("changed!"))...))
	e.want(rdma.OpReceive, 1, rdma.StatusSuccess)
	if string(e.buf[:8]) != "checked!" {
		t.Errorf("%q", e.buf[:8])
	}
	if got := p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x11, 0}) {
		t.Errorf("Terminate %x", got)
	}
	if string(e.buf[:8]) != "checked!" {
		t.Errorf("%q after the end", e.buf[:8])
	}
}

// taps has the bytes that connections write to TCP.
type taps struct {
	mu  sync.Mutex
	all []byte
}

func (w *taps) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.all)
}

// tappedListener accepts tapped connections.
type tappedListener struct {
	net.Listener
	to *taps
}

func (l tappedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return tapped{nc, l.to}, err
}

// tapped is a connection whose written bytes are recorded.
type tapped struct {
	net.Conn
	to *taps
}

func (c tapped) Write(b []byte) (int, error) {
	c.to.mu.Lock()
	c.to.all = append(c.to.all, b...)
	c.to.mu.Unlock()
	return c.Conn.Write(b)
}

// The provider does not claim confidentiality. A program that needs it supplies an
// encrypted stream, which works like any other stream.
//
// Source: [RFC 5042 §5.4], [RFC 7146 §2], [OP-114]
func TestSecurity14Confidential(t *testing.T) {
	secret := bytes.Repeat([]byte("a secret of 24 bytes -- "), 500)
	for _, encrypted := range []bool{false, true} {
		var wire taps
		client, server := selfSigned(t)
		dial := func(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error) {
			nc, err := dialTCP(ctx, local, remote)
			if err != nil {
				return nil, err
			}
			if !encrypted {
				return tapped{nc, &wire}, nil
			}
			return tls.Client(tapped{nc, &wire}, client), nil
		}
		listen := func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
			l, err := listenTCP(ctx, local)
			if err == nil && encrypted {
				l = tls.NewListener(l, server)
			}
			return l, err
		}
		from, to := connect(t, &Config{Dial: dial}, &Config{Listen: listen}, shape{depth: 4, sge: 1, buf: 64 << 10})
		if from.a.Info().Caps.Has(rdma.CapConfidential) {
			t.Error("the provider claims to keep secrets")
		}
		copy(from.buf, secret)
		to.recv(1, 0, 0)
		from.post(
			rdma.Request{Op: rdma.OpWrite, ID: 1, SGL: from.sgl(0, len(secret)), Remote: to.at(100)},
			rdma.Request{Op: rdma.OpSend, ID: 2},
		)
		from.want(rdma.OpWrite, 1, rdma.StatusSuccess)
		from.want(rdma.OpSend, 2, rdma.StatusSuccess)
		to.want(rdma.OpReceive, 1, rdma.StatusSuccess)
		if !bytes.Equal(to.buf[100:100+len(secret)], secret) {
			t.Error("the data is wrong")
		}
		if seen := bytes.Contains(wire.bytes(), secret[:24]); seen == encrypted {
			t.Errorf("encrypted %v, and the data seen %v", encrypted, seen)
		}
	}
}

// selfSigned returns the two configs of an encrypted stream to 127.0.0.1.
func selfSigned(t *testing.T) (client, server *tls.Config) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"},
		&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
}

// MPA does not identify a peer. A connector belongs to one TCP connection, and reports
// the true address of that connection. It has the peer's private data, exactly as sent,
// before this side answers.
//
// Source: [RFC 5042 §5.1], [RFC 5044 §7.1], [OP-46b]
func TestSecurity15Identity(t *testing.T) {
	var wire taps
	server, l, addr := listenSide(t, &Config{Listen: func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
		l, err := listenTCP(ctx, local)
		return tappedListener{l, &wire}, err
	}}, shape{depth: 4, sge: 1, buf: 4096})
	proof := []byte("\x00 a proof of identity \xFF")
	var peers []*rawPeer
	var cons []rdma.Connector
	for range 2 {
		p := dialRaw(t, addr)
		p.send((&frame.Startup{Revision: 1, CRC: true, Private: proof}).AppendTo(nil))
		con := connectorOf(t, server)
		if err := l.ConnectionRequest(t.Context(), con); err != nil {
			t.Fatal(err)
		}
		peers, cons = append(peers, p), append(cons, con)
	}
	for i, con := range cons {
		got, err := con.PrivateData()
		if err != nil || !bytes.Equal(got, proof) {
			t.Errorf("%q %v", got, err)
		}
		peer, err := con.PeerAddr()
		if want := fabricAddr(peers[i].nc.LocalAddr()); err != nil || peer != want {
			t.Errorf("peer %v %v, want %v", peer, err, want)
		}
	}
	if said := wire.bytes(); len(said) != 0 {
		t.Errorf("%x is said before the program decided", said)
	}
	for i, con := range cons {
		if err := con.Reject(nil); err != nil {
			t.Error(err)
		}
		peers[i].nc.Close()
	}
	if len(wire.bytes()) != 2*frame.StartupHeaderSize {
		t.Errorf("%x is said then", wire.bytes())
	}
	server.a.Close()
}
