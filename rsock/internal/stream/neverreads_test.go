package stream

import (
	"sync"
	"testing"
	"time"

	"lwio/rsock/internal/verbs"
)

// controlMessage makes the i-th message of a kind, from 0, of a peer that takes no message.
// Some kinds break a rule, because the peer knows nothing of the stream.
func controlMessage(k Type, i int, memory []byte) Message {
	m := Message{Type: k, Transfer: uint32(i + 1)}
	switch k {
	case TypeNegotiate, TypeNegotiateAck:
		m = hello(true)
		m.Type = k
	case TypeData, TypeUrgent:
		m.Transfer, m.Payload = 0, make([]byte, 3000)
	case TypeOffer:
		m.Total, m.Descriptor = uint64(70_000), memory
	case TypeReady:
		m.Flags, m.Total, m.Descriptor = FlagYours, 70_000, memory
	case TypeDone:
		m.Flags, m.Total = FlagYours, 1
	case TypeCredit:
		m.Transfer, m.Credits = 0, 1
	case TypeFail:
		m.Flags, m.Status = FlagYours, FailNoBuffers
	default:
		m.Transfer = 0
	}
	return m
}

// TestPeerThatNeverReadsHoldsBoundedMemory has peers send control messages of each kind, as many
// as they have credits, and take no message. The programs of their streams write, and read or
// not. The streams keep no more messages than their windows and no more memory for large data
// than their budget. A stream of another peer moves its data meanwhile, and all memory comes
// back.
func TestPeerThatNeverReadsHoldsBoundedMemory(t *testing.T) {
	for k := TypeNegotiate; k <= TypeFail; k++ {
		t.Run(k.String(), func(t *testing.T) {
			onFabrics(t, func(t *testing.T, f fabric) {
				for name, reads := range map[string]bool{"reads": true, "reads nothing": false} {
					t.Run(name, func(t *testing.T) { testPeerThatNeverReads(t, f, k, reads) })
				}
			})
		})
	}
}

func testPeerThatNeverReads(t *testing.T, f fabric, k Type, reads bool) {
	const limit = 4 << 20 // for the large data of two streams of five
	budget := NewBudget(limit)
	var program sync.WaitGroup
	var silent []*Stream
	var peers []*raw
	for i := range 4 {
		s, r := greeted(t, f, Config{Memory: budget, NoRead: i == 3, Linger: time.Millisecond}, i != 2)
		silent, peers = append(silent, s), append(peers, r)
		program.Go(func() {
			for block := make([]byte, 200_000); ; {
				if _, err := s.Write(block); err != nil {
					return
				}
			}
		})
		if reads {
			program.Go(func() { outcome(s) })
		}
	}
	for i, r := range peers {
		s := silent[i]
		var memory []byte
		if k == TypeOffer && s.c.canRead() || k == TypeReady {
			memory = r.expose(70_000, verbs.MemReadWrite)
		}
		for n := range DefaultReceiveBuffers - 1 {
			if s.c.failure() != nil {
				break // a violation
			}
			r.sendMessage(controlMessage(k, n, memory))
		}
		until(t, "the stream has the messages", func() bool {
			return s.c.failure() != nil || s.c.counts.messagesIn.Load() >= DefaultReceiveBuffers
		})
	}
	a, b := pair(t, f, setup{active: Config{Memory: budget}, passive: Config{Memory: budget}})
	exchange(t, a, b, pattern(300_000))
	for _, s := range silent {
		s.rx.mu.Lock()
		kept, held := s.rx.input.items.len(), s.rx.input.budget+s.rx.input.fetch.held()+s.stage.held()
		s.rx.mu.Unlock()
		s.tx.mu.Lock()
		queued := len(s.tx.queue)
		s.tx.mu.Unlock()
		if kept > DefaultReceiveBuffers || queued > DefaultReceiveBuffers+maxOffers || held > limit {
			t.Errorf("%d messages are kept, %d are queued, and %d bytes are held", kept, queued, held)
		}
	}
	if left := budget.left.Load(); left < 0 || left > limit {
		t.Errorf("%d bytes of the budget of %d are left", left, limit)
	}
	for i, s := range silent {
		peers[i].sock.Close()
		s.Close()
	}
	closeBoth(a, b)
	program.Wait()
	if left := budget.left.Load(); left != limit {
		t.Errorf("%d bytes of memory for large data are not returned", limit-left)
	}
}
