package stream

// draft is the buffer of a data message that ReadFrom fills directly, which saves a copy.
// One draft exists at a time, so that a source that blocks leaves the other buffers free.
type draft struct {
	o    *sender
	i    int    // index of the slot
	data []byte // room for the payload
}

// draft returns a buffer for up to size bytes of data. ok is false without a free buffer, or
// if another draft exists. The caller ends the draft by trySend or drop.
func (o *sender) draft(size int) (d draft, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := len(o.free) - 1
	if o.drafted != nil || last < 1 {
		return d, false
	}
	d = draft{o: o, i: o.free[last]}
	o.free = o.free[:last]
	o.drafted = &o.slots[d.i]
	d.data = o.slots[d.i].buf[HeaderSize:][:size]
	return d, true
}

// drop frees the buffer unsent.
func (d *draft) drop() {
	d.o.mu.Lock()
	d.o.free = append(d.o.free, d.i)
	d.o.drafted = nil
	d.o.mu.Unlock()
	d.o.c.signal(&d.o.c.writeWait)
}

// trySend sends the first n bytes and returns true if there is a credit. The draft has ended
// then. A message that cannot be posted ends the stream.
func (d *draft) trySend(n int) bool {
	o := d.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.credits.allow(keptClass) {
		o.c.counts.stalls.Add(1)
		return false
	}
	t := &o.slots[d.i]
	m := Message{Type: TypeData, Sequence: o.sequence, Credits: o.credits.spend()}
	m.appendHeader(t.buf[:0], n)
	if err := o.postSlotLocked(t, HeaderSize+n); err != nil {
		o.free = append(o.free, d.i)
		o.c.failBelow(err)
	}
	o.drafted = nil
	return true
}
