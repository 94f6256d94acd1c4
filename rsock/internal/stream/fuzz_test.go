package stream

import (
	"sync"
	"testing"
	"time"

	"lwio/rsock/internal/verbs"
)

// The byte of flags of a step of FuzzStream.
const (
	fuzzMutations = 3  // the number of changed bytes
	fuzzLoose     = 4  // the sequence does not advance
	fuzzAnswered  = 8  // the peer waits for a message first
	fuzzNoCredits = 16 // the message grants no credits
)

// FuzzStream sends sequences of messages after the negotiation to a stream whose program reads and
// writes. The first byte selects the provider and the end of the connection. Each step is a kind of
// message, a byte of flags, and the position and the value of each changed byte. The stream goes on
// or ends, and closes in time; then it holds none of the memory for large data.
func FuzzStream(f *testing.F) {
	for first := range byte(8) {
		f.Add([]byte{first})
		for kind := range byte(12) {
			f.Add([]byte{first, kind, 8, 0, 8, kind, 0})
		}
		f.Add([]byte{first, 0, 8, 2, 0, 0, 8, 5, 8, 8, 0, 0, 0})
		f.Add([]byte{first, 2, 8, 2, 8, 2, 24, 10, 8, 9, 0})
		f.Add([]byte{first, 3, 8, 5, 8, 4, 8, 6, 8, 7, 8, 8, 0})
		f.Add([]byte{first, 0, 9, 1, 64, 11, 2, 5, 1, 7, 255})
	}
	const limit = 4 << 20
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 400 {
			return
		}
		budget := NewBudget(limit)
		s, r := greeted(t, fabrics()[in[0]&1], Config{Linger: 50 * time.Millisecond, Memory: budget, NoRead: in[0]&2 != 0}, true)
		var program sync.WaitGroup
		program.Go(func() { outcome(s) })
		program.Go(func() {
			for block := make([]byte, 200_000); ; {
				if _, err := s.Write(block); err != nil {
					return
				}
			}
		})
		p := fuzzPeer{raw: r, memory: r.expose(70_000, verbs.MemReadWrite)}
		p.play(in[1:])
		if in[0]&4 != 0 {
			s.Close() // while the peer is there
		}
		r.sock.Close()
		s.Close()
		program.Wait()
		if left := budget.left.Load(); left != limit {
			t.Errorf("%d bytes of memory for large data are not returned", limit-left)
		}
	})
}

// fuzzPeer is the peer of a stream in FuzzStream.
type fuzzPeer struct {
	*raw
	memory  []byte  // a descriptor
	offer   Message // the last one of the stream
	last    uint32  // transfer of this side
	granted uint16  // credits to grant: received messages
}

// play sends the steps of an input, until the connection ends.
func (p *fuzzPeer) play(in []byte) {
	for len(in) >= 2 {
		kind, flags := in[0], in[1]
		in = in[2:]
		wait := time.Duration(0)
		if flags&fuzzAnswered != 0 {
			wait = 5 * time.Millisecond
		}
		if !p.take(wait) {
			return
		}
		m := p.message(kind)
		if flags&fuzzNoCredits == 0 {
			m.Credits, p.granted = p.granted, 0
		}
		m.Sequence = p.sequence
		if flags&fuzzLoose == 0 {
			p.sequence++
		}
		msg := m.AppendTo(nil)
		for range flags & fuzzMutations {
			if len(in) < 2 {
				break
			}
			msg[int(in[0])%len(msg)] ^= in[1]
			in = in[2:]
		}
		p.sendBytes(msg)
	}
	p.take(time.Millisecond)
}

// message makes a message of a kind.
func (p *fuzzPeer) message(kind byte) Message {
	theirs := Message{Flags: FlagYours, Transfer: p.offer.Transfer}
	switch kind % 12 {
	case 0:
		return Message{Type: TypeData, Payload: make([]byte, 500)}
	case 1:
		return Message{Type: TypeUrgent, Payload: []byte{1}}
	case 2:
		p.last++
		return Message{Type: TypeOffer, Transfer: p.last, Total: 70_000, Descriptor: p.memory}
	case 3:
		p.last++
		return Message{Type: TypeOffer, Transfer: p.last, Total: 70_000}
	case 4:
		return Message{Type: TypeDone, Transfer: p.last, Total: 70_000}
	case 5:
		theirs.Type, theirs.Total = TypeDone, p.offer.Total
		return theirs
	case 6:
		theirs.Type, theirs.Total, theirs.Descriptor = TypeReady, 70_000, p.memory
		return theirs
	case 7:
		theirs.Type, theirs.Status = TypeFail, FailNoBuffers
		return theirs
	case 8:
		return Message{Type: TypeFail, Transfer: p.last, Status: FailWithdrawn}
	case 9:
		return Message{Type: TypeShutdown}
	case 10:
		return Message{Type: TypeCredit, Credits: 1}
	default:
		return Message{Type: TypeShutdown, Flags: FlagClosing}
	}
}

// take receives the messages that are there. If there is none, it waits up to a time for one. It
// reports whether the connection goes on.
func (p *fuzzPeer) take(wait time.Duration) bool {
	for end := time.Now().Add(wait); ; {
		if _, err := p.sock.Poll(); err != nil {
			return false
		}
		o := p.recvs[p.next]
		if !p.isDone(o) {
			if !time.Now().Before(end) {
				return true
			}
			time.Sleep(20 * time.Microsecond)
			continue
		}
		n, err := p.sock.GetResult(o)
		if err != nil {
			return false
		}
		m, err := Decode(append([]byte(nil), p.area[p.next*rawSize:][:n]...))
		if err != nil {
			p.tb.Fatalf("the stream sends %v", err)
		}
		if m.Type == TypeOffer {
			p.offer = m
		}
		p.granted++
		if p.post(p.next) != nil {
			return false
		}
		p.next = (p.next + 1) % rawBuffers
		end = time.Now()
	}
}
