package stream

// reserve is how many credits stream data leaves for messages that the receiver keeps
// nothing of: without it, two sides whose programs do not read could not tell each other
// of anything else.
const reserve = 4

// class is what a message needs of the credits.
type class uint8

const (
	// parked: the receiver may keep the payload until its program reads it, and grants the
	// credit again only then.
	parked class = iota
	// passing: the receiver keeps nothing; the credit comes back as soon as it is worth a
	// message.
	passing
	// granting: a passing message that has nothing but credits. Only it may take the last
	// one.
	granting
)

// credits counts, for one connection, how many messages each side may send. It is not safe
// for concurrent use.
//
// Of the window that each side grants, the other keeps reserve for passing messages, and
// the last one for a message that grants. A side grants when half of its window was
// consumed, and earlier when the other runs low. So a side that has nothing left can be
// sure that the other has: what it sent last gave at least one.
//
// Source: [WSD §4 credit rules]
type credits struct {
	own    int // that this side may send
	limit  int // the most that it can have: the peer's window
	window int // this side's
	peer   int // that the peer has, as far as this side knows
	owed   int // consumed, and not granted again
	held   int // consumed by what the program has not read
	late   int // consumed, and the receive is not posted again yet
}

// init begins with the windows of both sides, all granted.
func (c *credits) init(own, peer int) {
	*c = credits{own: peer, limit: peer, window: own, peer: own}
}

// may tells whether a message can be sent now.
func (c *credits) may(k class) bool {
	switch k {
	case parked:
		return c.own > reserve
	case passing:
		return c.own > 1
	case granting:
	}
	return c.own > 0 && c.owed > 0
}

// spend sends a message and returns what it grants.
func (c *credits) spend() (granted uint16) {
	granted = uint16(c.owed)
	c.own--
	c.peer += c.owed
	c.owed = 0
	return granted
}

// receive takes in a message with what it grants. The peer has broken a rule if it is
// false.
func (c *credits) receive(granted uint16) bool {
	c.peer--
	c.own += int(granted)
	return c.peer >= 0 && c.own <= c.limit
}

// consumed says that a message was taken out of its buffer, which is posted again. Its
// credit is owed at once, or when what it had is read.
func (c *credits) consumed(keep bool) {
	if keep {
		c.held++
	} else {
		c.owed++
	}
}

// read says that so many messages that were kept are read.
func (c *credits) read(n int) {
	c.held -= n
	c.owed += n
}

// grantNow tells whether it is time for a message that has nothing but credits.
func (c *credits) grantNow() bool { return c.own > 0 && c.enough(c.owed) }

// enough tells whether so many credits owed are worth a message.
func (c *credits) enough(owed int) bool {
	return owed >= c.window/2 || owed >= reserve/2 && c.peer <= reserve
}

// delay says that a message was taken out of its buffer, which is posted again later. It is
// false if the peer would miss its credit then.
func (c *credits) delay() bool {
	if c.enough(c.owed + c.late + 1) {
		return false
	}
	c.late++
	return true
}

// posted says that a buffer is posted again that was delayed.
func (c *credits) posted() {
	c.late--
	c.owed++
}
