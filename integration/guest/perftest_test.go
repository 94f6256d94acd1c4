package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"lwio/integration/endpoint"
	"lwio/integration/guest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// A program of perftest makes two connections on iWARP. On the first one the client sends
// messages, and waits for the answer to each. It sends the version, sizes of memory and the
// MTU; our side repeats them to agree. Then it sends the address of its buffer, several
// times as synchronization; our side answers with the address of its own buffer. At the end
// it sends figures. The client makes the second connection after the first address. The
// measured data uses this connection.
const (
	talkToConnect = 5  // messages before the second connection
	placeSize     = 56 // bytes of the message that says where a buffer is
	rkeyAt        = 16 // four bytes, big endian
	vaddrAt       = 24 // eight
	perfMemory    = 16 << 20
	sendSize      = 4096
	sendCount     = 1000
	sendRoom      = 512 // receives that the client counts on
	creditEvery   = 64  // receives
)

// perfKind is a program of perftest.
type perfKind struct {
	args []string
	// before and after are the numbers of messages before and after the work of our side on
	// the second connection.
	before, after int
	// serve, if set, is the work of our side; place is the client's buffer.
	serve func(ctx context.Context, e *endpoint.Endpoint, place rdma.RemoteAddr) error
	// fills says that the client writes into our buffer.
	fills bool
}

// TestPerftest serves the kernel's ib_write_bw, ib_read_bw and ib_send_bw, with connections
// by rdma_cm (-R): writes and reads of every power of two up to 8 MiB, and sends with the
// credits of perftest on iWARP.
//
// Source: [RFC 5040 §5]
func TestPerftestWithKernel(t *testing.T) {
	g := boot(t)
	siw(t, g)
	for _, c := range []perfKind{
		{args: []string{"ib_write_bw", "-a", "-n", "5"}, before: 4, after: 7, fills: true},
		{args: []string{"ib_read_bw", "-a", "-n", "5"}, before: 4, after: 7},
		{args: []string{"ib_send_bw", "-s", strconv.Itoa(sendSize), "-n", strconv.Itoa(sendCount)}, before: 5, serve: receiveWithCredit, after: 1},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			ctx := limit(t)
			a := adapter(t, iwarp.Config{CRC: iwarp.CRCOff})
			l, port := listen(t, a)
			client := background(t, g, append(c.args, "-R", "-F", "-p", port, guest.Host)...)
			if err := servePerftest(ctx, a, l, c); err != nil {
				t.Error(err)
			}
			if _, err := client.Wait(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// servePerftest is our side of one run.
func servePerftest(ctx context.Context, a rdma.Adapter, l rdma.Listener, kind perfKind) error {
	beside, c1, err := take(ctx, a, l, endpoint.Shape{Receives: 2, ReceiveSize: placeSize, Data: 4096})
	if err != nil {
		return err
	}
	defer beside.Close()
	defer c1.Close()
	talk := talk{e: beside}
	if err := talk.answer(ctx, talkToConnect); err != nil {
		return errors.Join(err, c1.Err())
	}
	e, c2, err := take(ctx, a, l, endpoint.Shape{Receives: sendRoom, ReceiveSize: sendSize, Data: perfMemory})
	if err != nil {
		return err
	}
	defer e.Close()
	defer c2.Close()
	talk.own = e.RemoteAddr(0)
	if err := talk.answer(ctx, kind.before); err != nil {
		return errors.Join(err, c1.Err(), c2.Err())
	}
	if kind.serve != nil {
		if err := kind.serve(ctx, e, talk.place); err != nil {
			return errors.Join(err, c2.Err())
		}
	}
	if err := talk.answer(ctx, kind.after); err != nil {
		return errors.Join(err, c2.Err())
	}
	// The client ends the connection. If our side closed it after its answer, siw might not
	// have completed its last send yet, and the send would fail.
	select {
	case <-c1.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	const largest = 8 << 20
	if last := e.Bytes(largest-64, 64); kind.fills == bytes.Equal(last, make([]byte, 64)) {
		return fmt.Errorf("the end of the buffer is %x", last)
	}
	return nil
}

// take accepts the next connection.
func take(ctx context.Context, a rdma.Adapter, l rdma.Listener, s endpoint.Shape) (*endpoint.Endpoint, rdma.Connector, error) {
	e, err := endpoint.New(ctx, a, s)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.CreateConnector()
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	if err = l.ConnectionRequest(ctx, c); err == nil {
		err = c.Accept(ctx, e.QP, rdma.ReadLimits{Inbound: 128, Outbound: 128}, nil)
	}
	if err != nil {
		c.Close()
		e.Close()
		return nil, nil, err
	}
	return e, c, nil
}

// talk answers the messages on the first connection.
type talk struct {
	e     *endpoint.Endpoint
	own   rdma.RemoteAddr // our buffer
	place rdma.RemoteAddr // the client's, as it said last
}

// answer takes n messages and repeats each. In a message with the address of a buffer it
// puts the address of ours.
func (k *talk) answer(ctx context.Context, n int) error {
	for i := range n {
		m, err := k.e.Receive(ctx)
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", i, n, err)
		}
		if len(m) == placeSize {
			k.place.Token = rdma.RemoteToken(binary.BigEndian.Uint32(m[rkeyAt:]))
			k.place.Addr = binary.BigEndian.Uint64(m[vaddrAt:])
			binary.BigEndian.PutUint32(m[rkeyAt:], uint32(k.own.Token))
			binary.BigEndian.PutUint64(m[vaddrAt:], k.own.Addr)
		}
		copy(k.e.Bytes(0, len(m)), m)
		if err := k.e.Do(ctx, rdma.Request{Op: rdma.OpSend, SGL: k.e.SGE(0, len(m))}); err != nil {
			return fmt.Errorf("answer %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// receiveWithCredit takes the sends of ib_send_bw and writes their number back at
// intervals: the client sends no more than there are receives.
func receiveWithCredit(ctx context.Context, e *endpoint.Endpoint, credit rdma.RemoteAddr) error {
	for i := 1; i <= sendCount; i++ {
		m, err := e.Receive(ctx)
		if err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
		if len(m) != sendSize {
			return fmt.Errorf("send %d of %d bytes", i, len(m))
		}
		if i%creditEvery == 0 {
			binary.LittleEndian.PutUint32(e.Bytes(0, 4), uint32(i))
			if err := e.Do(ctx, rdma.Request{Op: rdma.OpWrite, SGL: e.SGE(0, 4), Remote: credit}); err != nil {
				return fmt.Errorf("credit %d: %w", i, err)
			}
		}
	}
	return nil
}
