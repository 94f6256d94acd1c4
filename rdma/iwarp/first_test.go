package iwarp

import (
	"context"
	"net"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A peer whose first frame breaks a rule gets a Terminate: always from the active side,
// and from the passive side if the frame itself was valid.
//
// Source: [RFC 5040 §4.8], [RFC 5044 §7.1.2 rule 4]
func TestWrongFirstFrameEndsWithTerminate(t *testing.T) {
	wrong := frame.TaggedSegment(frame.OpWrite, 0xDEADBE01, 0, true)
	badCRC := func(p *rawPeer) []byte {
		b := p.frame(wrong, make([]byte, 4))
		b[len(b)-1] ^= 1
		return b
	}
	for _, c := range []struct {
		name            string
		frame           func(*rawPeer) []byte
		want            []byte // beginning of the Terminate
		active, passive bool   // sides that send it
	}{
		{"no STag", func(p *rawPeer) []byte { return p.frame(wrong, make([]byte, 4)) }, []byte{0x11, 0}, true, true},
		{"wrong CRC", badCRC, []byte{0x20, 2}, true, false},
	} {
		t.Run(c.name+", active side", func(t *testing.T) {
			_, p := acceptRaw(t)
			p.send(c.frame(p))
			if got := p.wantTerminate(); string(got[:2]) != string(c.want) {
				t.Errorf("Terminate %x, want %x", got, c.want)
			}
		})
		t.Run(c.name+", passive side", func(t *testing.T) {
			_, p, accepted := serveRaw(t, nil, &frame.Startup{Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRWrite: true}})
			p.send(c.frame(p))
			if !c.passive {
				p.wantEnd()
			} else if got := p.wantTerminate(); string(got[:2]) != string(c.want) {
				t.Errorf("Terminate %x, want %x", got, c.want)
			}
			if err := <-accepted; err == nil {
				t.Error("accepted")
			}
		})
	}
}

// acceptRaw connects a side to a raw peer that asks for no first message. It returns a
// connection in full operation.
func acceptRaw(t *testing.T) (*side, *rawPeer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := newSide(t, nil, shape{depth: 8, sge: 2, buf: 64 << 10, context: 7})
	ctx := context.Background()
	connected := make(chan error, 1)
	go func() {
		err := client.con.Connect(ctx, client.qp, fabricAddr(l.Addr()), rdma.ReadLimits{}, nil)
		if err == nil {
			err = client.con.CompleteConnect(ctx)
		}
		connected <- err
	}()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, nc)
	if _, err := readStartup(nc, false); err != nil {
		t.Fatal(err)
	}
	reply := frame.Startup{Reply: true, Revision: 2, CRC: true, Enhanced: &frame.Enhanced{}}
	p.crc = true
	p.send(reply.AppendTo(nil))
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	return client, p
}
