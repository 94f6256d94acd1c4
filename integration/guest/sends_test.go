package guest_test

import (
	"context"
	"fmt"
	"testing"

	"lwio/integration/endpoint"
	"lwio/integration/guest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// The exchange of ucmatose, a program of rdmacm-utils: first the passive side sends this
// number of messages of this size, and then the active side.
const (
	messages    = 20
	messageSize = 5000
)

func messageShape() endpoint.Shape {
	return endpoint.Shape{Receives: messages, ReceiveSize: messageSize, Data: messageSize}
}

// sendAll and receiveAll do the two halves of the exchange.
func sendAll(ctx context.Context, e *endpoint.Endpoint) error {
	for range messages {
		if err := e.Do(ctx, rdma.Request{Op: rdma.OpSend, SGL: e.SGE(0, messageSize)}); err != nil {
			return err
		}
	}
	return nil
}

func receiveAll(ctx context.Context, e *endpoint.Endpoint) error {
	for i := range messages {
		m, err := e.Receive(ctx)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(m) != messageSize {
			return fmt.Errorf("message %d of %d bytes", i, len(m))
		}
	}
	return nil
}

// TestSiwSpeaksFirst connects to a kernel program that sends as soon as it has accepted:
// its frames arrive together with its reply.
//
// Source: [RFC 5044 §7.1.2], [RFC 6581 §9]
func TestSiwSpeaksFirst(t *testing.T) {
	g := boot(t)
	siw(t, g)
	for _, revision := range []int{1, 2} {
		for _, crc := range []iwarp.CRCPolicy{iwarp.CRCOff, iwarp.CRCOn} {
			t.Run(fmt.Sprintf("revision %d, CRC %v", revision, crc == iwarp.CRCOn), func(t *testing.T) {
				ctx := limit(t)
				server := background(t, g, "ucmatose", "-b", guest.Addr, "-p", fmt.Sprint(farPort),
					"-C", fmt.Sprint(messages), "-S", fmt.Sprint(messageSize))
				listening(t, g, farPort)
				tap := &tap{}
				if revision == 2 {
					tap.edit = clearBits(peerToPeer, rtrWrite|rtrRead)
				}
				cfg := iwarp.Config{CRC: crc, Revision: revision}
				tap.into(&cfg)
				a := adapter(t, cfg)
				e, err := endpoint.New(ctx, a, messageShape())
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				c, err := rdma.Dial(ctx, a, e.QP, remote(g, farPort), rdma.DialConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := receiveAll(ctx, e); err != nil {
					t.Fatal(err, c.Err(), tap.audit())
				}
				if err := sendAll(ctx, e); err != nil {
					t.Fatal(err, c.Err())
				}
				if err := c.Disconnect(ctx); err != nil {
					t.Error(err)
				}
				if _, err := server.Wait(ctx); err != nil {
					t.Error(err)
				}
				tap.wantCRC(t, crc == iwarp.CRCOn)
				if crc == iwarp.CRCOn {
					t.Log(tap.audit())
				}
				if _, reply := tap.frames(); int(reply.revision()) != revision {
					t.Errorf("siw answered %x", reply)
				}
			})
		}
	}
}

// TestWeSpeakFirst exchanges the roles of TestSiwSpeaksFirst. Our side may send after the
// first message of the kernel has arrived; the kernel sends one if it asked for that.
//
// Source: [RFC 6581 §9.2]
func TestWeSpeakFirst(t *testing.T) {
	g := boot(t)
	siw(t, g, "peer_to_peer=Y")
	ctx := limit(t)
	a := adapter(t, iwarp.Config{})
	l, port := listen(t, a)
	e, err := endpoint.New(ctx, a, messageShape())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	client := background(t, g, "ucmatose", "-s", guest.Host, "-p", port, "-C", fmt.Sprint(messages), "-S", fmt.Sprint(messageSize))
	c, err := a.CreateConnector()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := l.ConnectionRequest(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := c.Accept(ctx, e.QP, rdma.ReadLimits{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := sendAll(ctx, e); err != nil {
		t.Fatal(err, c.Err())
	}
	if err := receiveAll(ctx, e); err != nil {
		t.Fatal(err, c.Err())
	}
	if err := c.Disconnect(ctx); err != nil {
		t.Error(err)
	}
	if _, err := client.Wait(ctx); err != nil {
		t.Error(err)
	}
}
