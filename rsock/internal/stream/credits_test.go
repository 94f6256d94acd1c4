package stream

import (
	"testing"

	"pgregory.net/rapid"
)

// modelMessage is a message of the model.
type modelMessage struct {
	granted uint16
	kept    bool
}

// creditModel is two sides and the messages in flight between them.
type creditModel struct {
	side  [2]credits
	wire  [2][]modelMessage // to side i
	limit [2]int            // windows
}

func newCreditModel(w0, w1 int) *creditModel {
	m := &creditModel{limit: [2]int{w0, w1}}
	m.side[0].init(w0, w1)
	m.side[1].init(w1, w0)
	return m
}

// send sends a message of side i if the credits allow it.
func (m *creditModel) send(i int, k class) bool {
	if !m.side[i].allow(k) {
		m.post(i)
	}
	if !m.side[i].allow(k) {
		return false
	}
	m.wire[1-i] = append(m.wire[1-i], modelMessage{m.side[i].spend(), k == keptClass})
	return true
}

// deliver receives the first message at side i, and answers as a stream does.
func (m *creditModel) deliver(t *rapid.T, i int) bool {
	if len(m.wire[i]) == 0 {
		return false
	}
	msg := m.wire[i][0]
	m.wire[i] = m.wire[i][1:]
	if !m.side[i].receive(msg.granted) {
		t.Fatalf("side %d: a message without a credit, or too many granted", i)
	}
	if msg.kept || !rapid.Bool().Draw(t, "later") || !m.side[i].delay() {
		m.side[i].consumed(msg.kept)
		m.grant(i)
	}
	return true
}

func (m *creditModel) read(i, n int) {
	m.side[i].read(min(n, m.side[i].unread))
	m.grant(i)
}

// post posts the delayed receives.
func (m *creditModel) post(i int) {
	for m.side[i].delayed > 0 {
		m.side[i].posted()
	}
}

func (m *creditModel) grant(i int) {
	m.post(i)
	if m.side[i].grantDue() {
		m.send(i, grantClass)
	}
}

// check counts the buffers of each side: available to the peer, in flight, unread, to be
// granted, or not posted yet.
func (m *creditModel) check(t *rapid.T) {
	for i := range 2 {
		own, peer := &m.side[i], &m.side[1-i]
		granted := 0
		for _, msg := range m.wire[1-i] {
			granted += int(msg.granted)
		}
		if sum := peer.available + granted + len(m.wire[i]) + own.unread + own.ungranted + own.delayed; sum != m.limit[i] {
			t.Fatalf("side %d: %d of %d buffers are accounted for", i, sum, m.limit[i])
		}
		if own.available < 0 || own.ungranted < 0 || own.unread < 0 || own.unread > m.limit[i]-reserve {
			t.Fatalf("side %d: %+v", i, *own)
		}
	}
}

// settle delivers until no message is in flight, in a bounded number of turns.
func (m *creditModel) settle(t *rapid.T) {
	for turn := 0; m.deliver(t, 0) || m.deliver(t, 1); turn++ {
		if turn > 1000 {
			t.Fatal("the credit messages do not end")
		}
	}
}

// TestCreditsNeverDeadlock sends and receives at random. In every state each side can send
// passing messages without limit, even if no program reads and both windows are full. If one
// program reads, the peer can send data.
//
// Source: [WSD §4 credit rules]
func TestCreditsNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newCreditModel(rapid.IntRange(minBuffers, 40).Draw(t, "w0"), rapid.IntRange(minBuffers, 40).Draw(t, "w1"))
		for range rapid.IntRange(0, 300).Draw(t, "moves") {
			i := rapid.IntRange(0, 1).Draw(t, "side")
			switch rapid.IntRange(0, 4).Draw(t, "move") {
			case 0:
				m.send(i, keptClass)
			case 1:
				m.send(i, passingClass)
			case 2, 3:
				m.deliver(t, i)
			case 4:
				m.read(i, rapid.IntRange(1, 8).Draw(t, "read"))
			}
			m.check(t)
		}
		m.settle(t)
		for i := range 2 {
			for m.send(i, keptClass) {
			}
		}
		m.settle(t)
		for turn := range 100 {
			i := rapid.IntRange(0, 1).Draw(t, "sender")
			if !m.send(i, passingClass) && !m.send(i, grantClass) {
				t.Fatalf("turn %d: side %d cannot send a passing message: %+v", turn, i, m.side)
			}
			m.settle(t)
			m.check(t)
		}
		i := rapid.IntRange(0, 1).Draw(t, "reader")
		for sent := 0; sent < 100; sent++ {
			m.read(i, 1<<20)
			m.settle(t)
			if !m.send(1-i, keptClass) {
				t.Fatalf("side %d reads all, and side %d cannot send after %d: %+v", i, 1-i, sent, m.side)
			}
			m.settle(t)
			m.check(t)
		}
	})
}

// TestLastCreditIsForGrants spends the last credit only on a message that grants.
//
// Source: [WSD §4 credit rules]
func TestLastCreditIsForGrants(t *testing.T) {
	var c credits
	c.init(8, 8)
	for c.allow(keptClass) {
		c.spend()
	}
	if c.available != reserve {
		t.Errorf("data leaves %d credits, want %d", c.available, reserve)
	}
	for c.allow(passingClass) {
		c.spend()
	}
	if c.available != 1 || c.allow(grantClass) {
		t.Errorf("%d credits are left, and the last may go: %v", c.available, c.allow(grantClass))
	}
	if !c.receive(0) {
		t.Fatal("a message that there is a credit for")
	}
	if c.consumed(false); !c.allow(grantClass) {
		t.Error("the last one may not go with a grant")
	}
	if g := c.spend(); g != 1 || c.available != 0 {
		t.Errorf("granted %d, and %d are left", g, c.available)
	}
	if c.receive(9) {
		t.Error("more credits than the peer has buffers")
	}
}
