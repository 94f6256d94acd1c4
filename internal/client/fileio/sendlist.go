package fileio

import "slices"

// sendList keeps the operations of a queue that wait to be sent, in order. It belongs to the
// goroutine of the queue.
type sendList struct {
	ops  []*operation // from head on
	head int
}

// empty reports whether no operation waits.
func (l *sendList) empty() bool { return l.head == len(l.ops) }

// first returns the operation that is sent next. Precondition: the list is not empty.
func (l *sendList) first() *operation { return l.ops[l.head] }

// waiting returns the operations in order. The slice is valid until the list changes.
func (l *sendList) waiting() []*operation { return l.ops[l.head:] }

// push adds o at the end. It reuses the places of removed operations before it allocates.
func (l *sendList) push(o *operation) {
	if len(l.ops) == cap(l.ops) {
		l.ops = l.ops[:copy(l.ops, l.ops[l.head:])]
		l.head = 0
	}
	l.ops = append(l.ops, o)
}

// pop removes the first operation. Precondition: the list is not empty.
func (l *sendList) pop() {
	if l.head++; l.head == len(l.ops) {
		l.clear()
	}
}

// pushFront adds operations before all others, in their order.
func (l *sendList) pushFront(ops ...*operation) {
	if len(ops) <= l.head {
		l.head -= len(ops)
		copy(l.ops[l.head:], ops)
		return
	}
	l.ops = slices.Insert(l.ops, l.head, ops...)
}

// remove removes o if it waits.
func (l *sendList) remove(o *operation) {
	if i := slices.Index(l.waiting(), o); i >= 0 {
		l.ops = slices.Delete(l.ops, l.head+i, l.head+i+1)
	}
}

// clear removes all operations.
func (l *sendList) clear() { l.ops, l.head = l.ops[:0], 0 }
