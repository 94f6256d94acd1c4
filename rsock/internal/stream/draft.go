package stream

// draft is a buffer for a data message that a ReadFrom fills, so that its data is copied
// once less. There is one at a time: however long its reader takes, the other buffers are
// there for all else.
type draft struct {
	o    *outbound
	i    int    // of slots
	data []byte // where the payload goes
}

// draft gives a buffer for up to most bytes of data, if one is free and no other is out. It
// comes back with send or drop.
func (o *outbound) draft(most int) (d draft, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := len(o.free) - 1
	if o.lent != nil || last < 1 {
		return d, false
	}
	d = draft{o: o, i: o.free[last]}
	o.free = o.free[:last]
	o.lent = &o.slots[d.i]
	d.data = o.slots[d.i].buf[HeaderSize:][:most]
	return d, true
}

// drop gives the buffer back as it is.
func (d *draft) drop() {
	d.o.mu.Lock()
	d.o.free = append(d.o.free, d.i)
	d.o.lent = nil
	d.o.mu.Unlock()
	d.o.s.baton.signal(&d.o.s.writer)
}

// trySend sends the first n bytes, if there is a credit, and tells whether it did; then the
// buffer is back. What cannot be posted ends the stream.
func (d *draft) trySend(n int) bool {
	o := d.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.credits.may(parked) {
		o.s.counts.held.Add(1)
		return false
	}
	t := &o.slots[d.i]
	m := Message{Type: TypeData, Sequence: o.sequence, Credits: o.credits.spend()}
	m.appendHeader(t.buf[:0], n)
	if err := o.sendLocked(t, HeaderSize+n); err != nil {
		o.free = append(o.free, d.i)
		o.s.fail(connectionError(&o.s.sock, err))
	}
	o.lent = nil
	return true
}
