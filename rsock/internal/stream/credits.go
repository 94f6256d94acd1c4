package stream

// reserve is how many credits stream data leaves for passing messages. Without the reserve,
// two sides whose programs do not read could not send each other any message.
const reserve = 4

// class is the use of credits by a message.
type class uint8

const (
	// keptClass: the receiver may keep the payload until its program reads it. Only then
	// it grants the credit again.
	keptClass class = iota
	// passingClass: the receiver keeps nothing. The credit comes back as soon as it is
	// worth a message.
	passingClass
	// grantClass: a passing message that grants credits. Only this class may use the last
	// credit.
	grantClass
)

// credits counts, for one connection, how many messages each side may send. Not safe for
// concurrent use.
//
// Each side grants a window. The sender keeps reserve of the window for passing messages,
// and the last credit for a message that grants credits. A side grants when half of its
// window is consumed, and earlier when the peer has few credits. So if one side has no
// credit, its peer has at least one: the last message of the first side granted it.
//
// Source: [WSD §4 credit rules]
type credits struct {
	available     int // messages that this side may send
	limit         int // the most that available can be: the window of the peer
	window        int // of this side, in messages
	peerAvailable int // messages that the peer may send, as known here
	ungranted     int // consumed, and to be granted with the next message
	unread        int // consumed by messages that the program has not read
	delayed       int // consumed by messages whose receive is not posted again yet
}

// init begins with the windows of both sides, all granted.
func (c *credits) init(window, peerWindow int) {
	*c = credits{available: peerWindow, limit: peerWindow, window: window, peerAvailable: window}
}

// allow reports whether a message of a class can be sent now.
func (c *credits) allow(k class) bool {
	switch k {
	case keptClass:
		return c.available > reserve
	case passingClass:
		return c.available > 1
	case grantClass:
	}
	return c.available > 0 && c.ungranted > 0
}

// spend takes the credit of a message, and returns how many credits the message grants.
func (c *credits) spend() (granted uint16) {
	granted = uint16(c.ungranted)
	c.available--
	c.peerAvailable += c.ungranted
	c.ungranted = 0
	return granted
}

// receive counts a message that arrived, and the credits that it grants. It returns false if
// the peer broke a rule.
func (c *credits) receive(granted uint16) bool {
	c.peerAvailable--
	c.available += int(granted)
	return c.peerAvailable >= 0 && c.available <= c.limit
}

// consumed counts a message whose buffer is posted again. Its credit can be granted at once.
// If the payload is kept, the credit can be granted after the program has read the payload.
func (c *credits) consumed(kept bool) {
	if kept {
		c.unread++
	} else {
		c.ungranted++
	}
}

// read counts n kept messages that the program has read.
func (c *credits) read(n int) {
	c.unread -= n
	c.ungranted += n
}

// grantDue reports whether it is time for a message that only grants credits.
func (c *credits) grantDue() bool { return c.available > 0 && c.worthMessage(c.ungranted) }

// worthMessage reports whether n credits to grant are worth a message.
func (c *credits) worthMessage(n int) bool {
	return n >= c.window/2 || n >= reserve/2 && c.peerAvailable <= reserve
}

// delay counts a message whose buffer is posted again later. It returns false, and counts
// nothing, if the peer would lack the credit meanwhile.
func (c *credits) delay() bool {
	if c.worthMessage(c.ungranted + c.delayed + 1) {
		return false
	}
	c.delayed++
	return true
}

// posted counts a delayed buffer that is posted again.
func (c *credits) posted() {
	c.delayed--
	c.ungranted++
}
