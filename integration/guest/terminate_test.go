package guest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lwio/integration/endpoint"
	"lwio/integration/guest"
	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// attempts bounds the repetitions of an operation that siw does not guarantee.
const attempts = 10

// TestTerminateOfSiw breaks rules towards the kernel and reads its Terminate, whose bits
// have another order than in the RFC.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8]
func TestTerminateOfSiw(t *testing.T) {
	g := boot(t)
	siw(t, g)
	for _, c := range []struct {
		name string
		do   func(e *endpoint.Endpoint, source rdma.RemoteAddr, size int) rdma.Request
		want iwarp.TerminateError
	}{
		{"write to no STag", func(e *endpoint.Endpoint, _ rdma.RemoteAddr, size int) rdma.Request {
			return rdma.Request{Op: rdma.OpWrite, SGL: e.SGE(0, size), Remote: rdma.RemoteAddr{Addr: 4096, Token: 0xDEADBE01}}
		}, iwarp.TerminateError{Layer: 1, Type: 1, Code: 0}},
		{"write past the end", func(e *endpoint.Endpoint, r rdma.RemoteAddr, size int) rdma.Request {
			return rdma.Request{Op: rdma.OpWrite, SGL: e.SGE(0, size+1), Remote: r}
		}, iwarp.TerminateError{Layer: 1, Type: 1, Code: 1}},
		{"read of no STag", func(e *endpoint.Endpoint, _ rdma.RemoteAddr, size int) rdma.Request {
			return rdma.Request{Op: rdma.OpRead, SGL: e.SGE(0, size), Remote: rdma.RemoteAddr{Addr: 4096, Token: 0xDEADBE01}}
		}, iwarp.TerminateError{Layer: 0, Type: 1, Code: 0}},
		{"read past the end", func(e *endpoint.Endpoint, r rdma.RemoteAddr, size int) rdma.Request {
			return rdma.Request{Op: rdma.OpRead, SGL: e.SGE(0, size+1), Remote: r}
		}, iwarp.TerminateError{Layer: 0, Type: 1, Code: 1}},
		{"message longer than the receive", func(e *endpoint.Endpoint, _ rdma.RemoteAddr, size int) rdma.Request {
			return rdma.Request{Op: rdma.OpSend, SGL: e.SGE(0, size)}
		}, iwarp.TerminateError{Layer: 1, Type: 2, Code: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := adapter(t, iwarp.Config{})
			l, port := listen(t, a)
			for range attempts {
				var got *iwarp.TerminateError
				err := provoke(t, g, a, l, port, c.do)
				if !errors.As(err, &got) {
					t.Logf("no Terminate, but %v", err)
					continue
				}
				if !got.Remote || got.Layer != c.want.Layer || got.Type != c.want.Type || got.Code != c.want.Code {
					t.Errorf("%v, want %v", got, &c.want)
				}
				return
			}
			t.Error("siw sent no Terminate message")
		})
	}
}

// provoke lets the kernel's client connect, posts one request, and returns the cause of the
// end of the connection.
func provoke(t *testing.T, g *guest.Guest, a rdma.Adapter, l rdma.Listener, port string,
	do func(*endpoint.Endpoint, rdma.RemoteAddr, int) rdma.Request) error {
	t.Helper()
	ctx := limit(t)
	e, c, source, size := visited(ctx, t, g, a, l, port)
	if _, err := e.QP.Post([]rdma.Request{do(e, source, size)}); err != nil {
		t.Fatal(err)
	}
	return ending(ctx, t, c)
}

// visited lets the kernel's client connect and send the address of its source buffer; the
// client then waits for an answer.
func visited(ctx context.Context, t *testing.T, g *guest.Guest, a rdma.Adapter, l rdma.Listener, port string) (
	e *endpoint.Endpoint, c rdma.Connector, source rdma.RemoteAddr, size int) {
	t.Helper()
	const want = 100
	background(t, g, "rping", "-c", "-a", guest.Host, "-p", port, "-C", "1", "-S", fmt.Sprint(want))
	e, c, err := take(ctx, a, l, endpoint.Shape{Receives: 2, ReceiveSize: 16, Data: 16384})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	t.Cleanup(func() { c.Close() })
	message, err := e.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if source, size, err = rping.DecodeInfo(message); err != nil || size != want {
		t.Fatalf("%x: %v", message, err)
	}
	return e, c, source, size
}

// ending waits for the end of a connection and returns its cause.
func ending(ctx context.Context, t *testing.T, c rdma.Connector) error {
	t.Helper()
	select {
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
		t.Fatal("the connection did not end")
		return nil
	}
}

// TestWrongCRCEndsTheConnection flips a bit of a frame on its way to the kernel.
//
// Source: [RFC 5044 §4.4], [RFC 5044 §8]
func TestWrongCRCEndsTheConnection(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	tap := &tap{flip: true, edit: clearBits(peerToPeer, rtrWrite|rtrRead)}
	cfg := iwarp.Config{CRC: iwarp.CRCOn, Revision: 2}
	tap.into(&cfg)
	a := adapter(t, cfg)
	for range attempts {
		var got *iwarp.TerminateError
		err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: []int{100}, Pause: settle})
		if !errors.As(err, &got) {
			t.Logf("no Terminate, but %v", err)
			*tap = *tap.again()
			continue
		}
		if !got.Remote || got.Layer != 2 || got.Type != 0 || got.Code != 2 {
			t.Errorf("%v, want a wrong CRC", got)
		}
		return
	}
	t.Error("siw sent no Terminate message")
}

// TestTerminateToSiw names memory that does not exist to the kernel's server. Our side ends
// the connection with a Terminate, and the kernel ends the read of its server.
//
// Source: [RFC 5040 §4.8], [RFC 5040 §7]
func TestTerminateToSiw(t *testing.T) {
	g := boot(t)
	siw(t, g)
	server := kernelServer(t, g)
	a := adapter(t, iwarp.Config{})
	ctx := limit(t)
	e, err := endpoint.New(ctx, a, endpoint.Shape{Receives: 2, ReceiveSize: 16, Data: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := rdma.Dial(ctx, a, e.QP, remote(g, rpingPort), rdma.DialConfig{Limits: rdma.ReadLimits{Inbound: 1, Outbound: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.Sleep(settle)
	rping.PutInfo(e.Bytes(0, 16), rdma.RemoteAddr{Addr: 4096, Token: e.RemoteAddr(0).Token + 1}, 100)
	if err := e.Do(ctx, rdma.Request{Op: rdma.OpSend, SGL: e.SGE(0, 16)}); err != nil {
		t.Fatal(err)
	}
	var got *iwarp.TerminateError
	if err := ending(ctx, t, c); !errors.As(err, &got) || got.Remote || got.Layer != 0 || got.Type != 1 || got.Code != 0 {
		t.Errorf("the connection ended with %v", err)
	}
	eventually(ctx, t, "the kernel's server gives its read up", func() bool {
		return strings.Contains(server.Output(), "wait for RDMA_READ_COMPLETE")
	})
	if log, err := g.Run(ctx, "dmesg"); err != nil || !strings.Contains(log, "siw: got TERMINATE") {
		t.Errorf("the kernel got no Terminate: %v", err)
	}
}

// TestMarkersAreRefusedBySiw asks siw for markers. siw does not support them and rejects
// the request.
//
// Source: [RFC 5044 §7.1.2]
func TestMarkersAreRefusedBySiw(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	for _, revision := range []int{1, 2} {
		a := adapter(t, iwarp.Config{Markers: true, Revision: revision})
		err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: []int{1}})
		if !errors.Is(err, rdma.StatusConnectionRefused) || !strings.Contains(err.Error(), "reject") {
			t.Errorf("revision %d: %v", revision, err)
		}
	}
}
