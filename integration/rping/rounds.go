package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"lwio/integration/endpoint"
	"lwio/rdma"
)

// The layout of an end's memory, in bytes: the message to send, and two buffers of data.
const (
	sendAt   = 0
	sourceAt = 4096
	sinkAt   = sourceAt + 65536
	dataEnd  = sinkAt + 65536
)

// end is one side of the connection.
type end struct{ *endpoint.Endpoint }

func newEnd(ctx context.Context, a rdma.Adapter) (end, error) {
	e, err := endpoint.New(ctx, a, endpoint.Shape{Receives: 2, ReceiveSize: infoSize, Data: dataEnd})
	return end{e}, err
}

// send sends the address of a buffer and waits for the completion.
func (e end) send(ctx context.Context, at, n int) error {
	PutInfo(e.Bytes(sendAt, infoSize), e.RemoteAddr(at), n)
	return e.Do(ctx, rdma.Request{Op: rdma.OpSend, SGL: e.SGE(sendAt, infoSize)})
}

// ping is the client's part of a round.
func (e end) ping(ctx context.Context, round, n int) error {
	source, sink := e.Bytes(sourceAt, n), e.Bytes(sinkAt, n)
	fill(source, round)
	clear(sink)
	for _, at := range []int{sourceAt, sinkAt} {
		if err := e.send(ctx, at, n); err != nil {
			return err
		}
		if _, err := e.Receive(ctx); err != nil {
			return err
		}
	}
	if !bytes.Equal(source, sink) {
		return ErrMismatch
	}
	return nil
}

// fill makes the data of a round: bytes other than zero, and a zero at the end. The bytes
// repeat with no power of two and with no round.
func fill(b []byte, round int) {
	x := uint32(round)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x>>24)%255 + 1
	}
	b[len(b)-1] = 0
}

// pong is the server's part of a round after the client's first message.
func (e end) pong(ctx context.Context, first []byte) error {
	source, n, err := DecodeInfo(first)
	if err != nil {
		return err
	}
	data := e.SGE(sourceAt, n)
	if err := e.Do(ctx, rdma.Request{Op: rdma.OpRead, SGL: data, Remote: source}); err != nil {
		return err
	}
	if err := e.send(ctx, sourceAt, 0); err != nil {
		return err
	}
	second, err := e.Receive(ctx)
	if err != nil {
		return err
	}
	sink, room, err := DecodeInfo(second)
	if err != nil {
		return err
	}
	if room < n {
		return fmt.Errorf("sink of %d bytes for %d", room, n)
	}
	if err := e.Do(ctx, rdma.Request{Op: rdma.OpWrite, SGL: data, Remote: sink}); err != nil {
		return err
	}
	return e.send(ctx, sourceAt, 0)
}

// ended reports whether an error is the orderly end of the connection by the peer.
func ended(c rdma.Connector, err error) bool {
	return errors.Is(err, rdma.StatusCanceled) && errors.Is(c.Err(), net.ErrClosed)
}

// because adds the cause of the end of the connection to an error, if the connection has
// ended.
func because(c rdma.Connector, err error) error {
	if err == nil || c.Err() == nil {
		return err
	}
	return errors.Join(err, c.Err())
}
