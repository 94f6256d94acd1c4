package lwio_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/internal/wire"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// Places in a frame of iWARP that carries a Send, in bytes: the number of the message in its queue, and
// the fields of the messages of LWIO.
const (
	queueAt       = mpaLength + 6
	numberAt      = mpaLength + 10
	messageAt     = mpaLength + otherHeader
	informationAt = messageAt + 8
)

// forger passes a plain RDMA connection on. It numbers the Sends of both directions anew, so that it can
// add messages and leave messages out.
type forger struct {
	// forge passes a frame on, or other frames. It holds mu.
	forge func(f *forger, way direction, frame []byte)

	mu      sync.Mutex
	to      [2]io.Writer // of the two directions
	numbers [2]uint32    // of the last Send of a direction
	writes  int          // WRITEs of the client so far
	blocks  int          // RDMA writes with data of READs so far
	reads   int          // READs of the client so far
	kept    []byte       // a frame, for later
	held    [][]byte     // frames that wait for another one
	waits   bool         // for the answer to the kept frame
	forged  int          // changes so far
}

// serve passes one connection on.
func (f *forger) serve(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	defer client.Close()
	defer server.Close()
	f.to = [2]io.Writer{server, client}
	var wg sync.WaitGroup
	for way, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			for first := true; ; first = false {
				frame := readFrame(ends[0], first)
				if frame == nil {
					_ = ends[1].(*net.TCPConn).CloseWrite() // both sides end in order
					return
				}
				f.pass(direction(way), frame, first)
			}
		})
	}
	wg.Wait()
}

// pass counts a frame and passes it on.
func (f *forger) pass(way direction, frame []byte, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case first:
		_, _ = f.to[way].Write(frame) // an error is the end of the connection
		return
	case way == toServer && opcodeOf(frame) == wire.OpWrite:
		f.writes++
	case way == toServer && opcodeOf(frame) == wire.OpRead:
		f.reads++
	case way == toClient && isTagged(frame) && f.reads > 0:
		f.blocks++
	}
	if f.forge == nil {
		f.send(way, frame)
		return
	}
	f.forge(f, way, frame)
}

// send sends frames, with the next numbers and right CRCs. A frame has a whole message.
func (f *forger) send(way direction, frames ...[]byte) {
	for _, b := range frames {
		if isSend(b) {
			f.numbers[way]++
			binary.BigEndian.PutUint32(b[numberAt:], f.numbers[way])
		}
		_, _ = f.to[way].Write(sum(b, false)) // an error is the end of the connection
	}
}

func isTagged(frame []byte) bool { return frame[mpaLength]&taggedBit != 0 }

// isSend reports whether a frame carries a Send.
func isSend(frame []byte) bool {
	return !isTagged(frame) && binary.BigEndian.Uint32(frame[queueAt:]) == 0
}

// opcodeOf returns the opcode of a message of the client.
func opcodeOf(frame []byte) wire.Opcode {
	if !isSend(frame) || len(frame) < messageAt+wire.HeaderSize {
		return 0xFF
	}
	return wire.Opcode(frame[messageAt+4])
}

// cookieOf returns the cookie of a request, or of an answer.
func cookieOf(way direction, frame []byte) uint64 {
	switch {
	case !isSend(frame):
		return 0
	case way == toServer:
		return binary.LittleEndian.Uint64(frame[messageAt+40:])
	}
	return binary.LittleEndian.Uint64(frame[messageAt:])
}

// answerTo returns the frame of the answer to a WRITE that succeeds.
func answerTo(write []byte) []byte {
	b := append(bytes.Clone(write[:messageAt]), wire.StatusResponse{
		Cookie: cookieOf(toServer, write), Information: binary.LittleEndian.Uint32(write[messageAt:]),
	}.AppendTo(nil)...)
	return framed(b)
}

// framed completes a frame whose payload ends with b: its length, padding and room for a CRC.
func framed(b []byte) []byte {
	n := len(b) - mpaLength
	binary.BigEndian.PutUint16(b, uint16(n))
	return append(b, make([]byte, -(mpaLength+n)&3+crcSize)...)
}

// payloadOf returns the payload of a frame.
func payloadOf(frame []byte) []byte {
	return frame[payloadAt(frame) : mpaLength+int(binary.BigEndian.Uint16(frame))]
}

// shorter returns a frame without the last bytes of its payload.
func shorter(frame []byte) []byte {
	end := mpaLength + int(binary.BigEndian.Uint16(frame)) - cutOff
	return framed(bytes.Clone(frame[:end]))
}

const (
	plainSize = 100 // bytes of each of the two writes of a session
	plainRead = plainSize / 2
	cutOff    = 10
)

// forgeries are the attacks on a plain connection. Each is carried out once.
var forgeries = []struct {
	name  string
	way   direction
	forge func(f *forger, way direction, frame []byte)
}{
	{"change", toServer, func(f *forger, way direction, frame []byte) {
		if way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 2 {
			f.forged++
			payloadOf(frame)[wire.HeaderSize] ^= 1
		}
		f.send(way, frame)
	}},
	{"drop", toServer, func(f *forger, way direction, frame []byte) {
		if way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 2 {
			f.forged++
			f.send(toClient, answerTo(frame))
			return
		}
		f.send(way, frame)
	}},
	{"repeat", toServer, func(f *forger, way direction, frame []byte) {
		if way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 1 {
			f.kept = bytes.Clone(frame)
		}
		f.sendKeptLast(way, frame)
	}},
	{"swap", toServer, func(f *forger, way direction, frame []byte) {
		if way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 1 {
			f.kept = frame
			f.send(toClient, answerTo(frame))
			return
		}
		f.sendKeptLast(way, frame)
	}},
	{"truncate", toServer, func(f *forger, way direction, frame []byte) {
		switch {
		case way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 2:
			f.forged++
			f.kept = bytes.Clone(frame)
			frame = shorter(frame)
			binary.LittleEndian.PutUint32(frame[messageAt:], plainSize-cutOff)
		case way == toClient && f.kept != nil && cookieOf(way, frame) == cookieOf(toServer, f.kept):
			binary.LittleEndian.PutUint32(frame[informationAt:], plainSize)
		}
		f.send(way, frame)
	}},
	{"change", toClient, onBlock(func(_ *forger, block []byte) []byte { payloadOf(block)[0] ^= 1; return block })},
	{"drop", toClient, onBlock(func(*forger, []byte) []byte { return nil })},
	{"truncate", toClient, onBlock(func(_ *forger, block []byte) []byte { return shorter(block) })},
	{"repeat", toClient, func(f *forger, way direction, frame []byte) {
		switch {
		case way == toServer || !isTagged(frame) || f.blocks == 0:
		case f.blocks == 1:
			f.kept = bytes.Clone(frame)
		case f.blocks == 2:
			f.forged++
			copy(payloadOf(frame), payloadOf(f.kept))
		}
		f.send(way, frame)
	}},
	{"swap", toClient, func(f *forger, way direction, frame []byte) {
		if way == toServer || f.blocks == 0 || f.forged > 0 {
			f.send(way, frame)
			return
		}
		f.held = append(f.held, frame)
		if isTagged(frame) && f.blocks == 2 {
			f.forged++
			first := bytes.Clone(payloadOf(f.held[0]))
			copy(payloadOf(f.held[0]), payloadOf(frame))
			copy(payloadOf(frame), first)
			f.send(way, f.held...)
		}
	}},
}

// sendKeptLast sends the kept WRITE behind the second one. It takes the answer to the kept one, and holds
// the answer to the second one until then.
func (f *forger) sendKeptLast(way direction, frame []byte) {
	switch cookie := cookieOf(way, frame); {
	case way == toClient && f.waits && cookie == cookieOf(toServer, f.kept):
		f.waits = false
		f.send(toClient, f.held...)
		return
	case way == toServer && opcodeOf(frame) == wire.OpWrite && f.writes == 2:
		f.held = [][]byte{bytes.Clone(frame)}
	case way == toClient && f.forged == 0 && len(f.held) == 1 && cookie == cookieOf(toServer, f.held[0]):
		f.forged++
		f.waits, f.held = true, [][]byte{frame}
		f.send(toServer, bytes.Clone(f.kept))
		return
	}
	f.send(way, frame)
}

// onBlock makes a forgery of the first RDMA write with data of a READ.
func onBlock(change func(f *forger, block []byte) []byte) func(f *forger, way direction, frame []byte) {
	return func(f *forger, way direction, frame []byte) {
		if way == toClient && isTagged(frame) && f.blocks == 1 && f.forged == 0 {
			f.forged++
			if frame = change(f, frame); frame == nil {
				return
			}
		}
		f.send(way, frame)
	}
}

// plainSession writes twice to a place of a file, reads it by two reads that are in flight together, and
// compares.
func plainSession(s *lwiotest.Server, m passer) error {
	ctx := context.Background()
	c, err := lwio.Dial(ctx, s.URL(), &lwio.Config{
		Providers: []rdma.Provider{viaMiddleman{iwarp.New(nil), m}}, RequireRDMA: true, Completion: lwio.Interrupt,
		Timeout: 10 * time.Second, ReconnectTimeout: -1,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.Create(ctx, "f")
	if err != nil {
		return err
	}
	defer f.Close()
	want := random(plainSize, 2)
	for _, p := range [][]byte{random(plainSize, 1), want} {
		if _, err := f.WriteAt(p, 0); err != nil {
			return err
		}
	}
	b := c.NewBatch(2)
	defer b.Close()
	got := make([]byte, plainSize)
	for at := 0; at < plainSize; at += plainRead {
		if err := b.ReadAt(f, got[at:][:plainRead], int64(at), 0); err != nil {
			return err
		}
	}
	done, err := b.Wait(ctx, 2)
	if err != nil {
		return err
	}
	for _, d := range done {
		if d.Err != nil || d.N != plainRead {
			return fmt.Errorf("%d bytes: %w", d.N, d.Err)
		}
	}
	if !bytes.Equal(got, want) {
		return errWrongData
	}
	return nil
}

// A plain connection protects nothing after AUTH: a middleman changes, drops, repeats, swaps and truncates
// the data of writes and of reads. The client gets wrong data, and neither side has an error. docs/security.md
// says so.
//
// Source: [OP-114b]
func TestMiddlemanOnPlainConnectionIsNotNoticed(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{iwarp.New(nil)}})
	if err := plainSession(s, &forger{}); err != nil {
		t.Fatal(err)
	}
	for _, a := range forgeries {
		t.Run(a.name+" "+a.way.String(), func(t *testing.T) {
			f := &forger{forge: a.forge}
			err := plainSession(s, f)
			waitUntil(t, func() bool { return s.Server.Stats().Connections == 0 })
			f.mu.Lock()
			defer f.mu.Unlock()
			if !errors.Is(err, errWrongData) || f.forged != 1 {
				t.Errorf("%v, after %d changes", err, f.forged)
			}
			if n := serverErrors(s); n != 0 {
				t.Errorf("the server has counted %d errors", n)
			}
		})
	}
}
