package server

// opList is a queue of operations. The links are fields of the operations, so the list does not
// allocate. An operation is in at most one list. The owner of the list guards it.
type opList struct {
	head, tail *op
}

func (l *opList) empty() bool { return l.head == nil }

// push appends o.
func (l *opList) push(o *op) {
	o.next, o.prev = nil, l.tail
	if l.tail == nil {
		l.head = o
	} else {
		l.tail.next = o
	}
	l.tail = o
}

// pop removes and returns the first operation; nil if there is none.
func (l *opList) pop() *op {
	o := l.head
	if o != nil {
		l.remove(o)
	}
	return o
}

// remove removes o, which is in the list.
func (l *opList) remove(o *op) {
	if o.prev == nil {
		l.head = o.next
	} else {
		o.prev.next = o.next
	}
	if o.next == nil {
		l.tail = o.prev
	} else {
		o.next.prev = o.prev
	}
	o.next, o.prev = nil, nil
}
