package stream

import (
	"errors"
	"testing"
	"time"

	"lwio/rsock/internal/verbs"
)

// raw is a peer that sends the messages of a test.
type raw struct {
	tb       testing.TB
	sock     *verbs.Socket
	area     []byte
	handle   verbs.Handle
	recvs    []*verbs.Overlapped
	next     int // of recvs
	send     verbs.Overlapped
	sequence uint32
}

// rawBuffers and rawSize are the number and the size of the receive buffers of raw. The last
// buffer of area is for sending.
const rawBuffers, rawSize = 32, 4096

func newRaw(tb testing.TB, sock *verbs.Socket) (*raw, error) {
	r := &raw{tb: tb, sock: sock, area: make([]byte, (rawBuffers+1)*rawSize)}
	var err error
	if r.handle, err = sock.RegisterMemory(tb.Context(), r.area, verbs.MemReadWrite); err != nil {
		return nil, err
	}
	for i := range rawBuffers {
		r.recvs = append(r.recvs, new(verbs.Overlapped))
		if err := r.post(i); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *raw) post(i int) error {
	return r.sock.Recv(r.recvs[i], []verbs.BufferEx{{Handle: r.handle, Offset: i * rawSize, Length: rawSize}}, 0)
}

// sendBytes sends bytes.
func (r *raw) sendBytes(b []byte) {
	r.tb.Helper()
	n := copy(r.area[rawBuffers*rawSize:], b)
	if err := r.sock.Send(&r.send, []verbs.BufferEx{{Handle: r.handle, Offset: rawBuffers * rawSize, Length: n}}, 0); err != nil {
		return // the connection has ended, which the test notices elsewhere
	}
	r.until(func() bool { return r.isDone(&r.send) })
}

// sendMessage sends a message with the right sequence.
func (r *raw) sendMessage(m Message) {
	r.tb.Helper()
	m.Sequence = r.sequence
	r.sequence++
	r.sendBytes(m.AppendTo(nil))
}

// isDone polls once, and reports whether a request has ended.
func (r *raw) isDone(o *verbs.Overlapped) bool {
	_, err := r.sock.GetResult(o)
	return !errors.Is(err, verbs.IOIncomplete)
}

// until polls until a condition is met.
func (r *raw) until(so func() bool) {
	r.tb.Helper()
	for end := time.Now().Add(patience); !so(); {
		if _, err := r.sock.Poll(); err != nil || time.Now().After(end) {
			r.tb.Fatalf("the raw peer waited in vain: %v", err)
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// receive waits for a message of a type, and skips others.
func (r *raw) receive(want Type) Message {
	r.tb.Helper()
	for {
		o := r.recvs[r.next]
		r.until(func() bool { return r.isDone(o) })
		n, err := r.sock.GetResult(o)
		if err != nil {
			r.tb.Fatalf("waiting for %v: %v", want, err)
		}
		m, err := Decode(append([]byte(nil), r.area[r.next*rawSize:r.next*rawSize+n]...))
		if err != nil {
			r.tb.Fatal(err)
		}
		if err := r.post(r.next); err != nil {
			r.tb.Fatal(err)
		}
		r.next = (r.next + 1) % rawBuffers
		if m.Type == want {
			return m
		}
	}
}

// quiet fails the test if a message comes within a short time.
func (r *raw) quiet(when string) {
	r.tb.Helper()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r.isDone(r.recvs[r.next]) {
			r.tb.Fatalf("a message comes %s", when)
		}
	}
}

// hello returns a valid first message.
func hello(canRead bool) Message {
	return Message{Type: TypeNegotiate, Credits: rawBuffers, Payload: (&Negotiation{Buffers: rawBuffers, BufferSize: rawSize, Offers: 8, CanRead: canRead}).AppendTo(nil)}
}

// against returns a stream whose peer is raw, before the negotiation.
func against(tb testing.TB, f fabric, cfg Config) (s *Stream, r *raw) {
	tb.Helper()
	sockets(tb, f, setup{}, func(sock *verbs.Socket, active bool) (err error) {
		if active {
			r, err = newRaw(tb, sock)
		} else {
			s, err = New(tb.Context(), sock, cfg)
		}
		return err
	})
	watch(tb, s)
	tb.Cleanup(func() { r.sock.Close(); s.Close() })
	return s, r
}

// greeted returns a stream whose peer is raw, after the negotiation.
func greeted(tb testing.TB, f fabric, cfg Config, canRead bool) (s *Stream, r *raw) {
	tb.Helper()
	return greetedBy(tb, f, cfg, hello(canRead))
}

// greetedBy is greeted with the first message of the peer.
func greetedBy(tb testing.TB, f fabric, cfg Config, first Message) (s *Stream, r *raw) {
	tb.Helper()
	s, r = against(tb, f, cfg)
	started := make(chan error, 1)
	go func() { started <- s.Start(tb.Context(), false) }()
	r.sendMessage(first)
	r.receive(TypeNegotiateAck)
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	return s, r
}

// expose registers memory of the raw peer for the stream, and returns the descriptor.
func (r *raw) expose(size int, access verbs.Access) []byte {
	r.tb.Helper()
	d := make([]byte, MaxDescriptor)
	n, err := r.sock.RegisterRdmaMemory(r.tb.Context(), pattern(size), access, d)
	if err != nil {
		r.tb.Fatal(err)
	}
	return d[:n]
}
