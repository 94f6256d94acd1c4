package stream

import "io"

// WriteTo writes the data of the peer's stream to w until its end, from the memory where it
// arrived, and returns the number of bytes.
//
// Errors: the errors of w.Write, and the errors of Read except io.EOF. Data that w did not
// accept is lost.
func (r *reader) WriteTo(w io.Writer) (n int64, err error) {
	for err == nil {
		var k int
		k, err = r.writePart(w)
		n += int64(k)
	}
	if err == io.EOF { //nolint:errorlint // here it is only the end of the stream
		err = nil
	}
	return n, err
}

// writePart waits for data and writes it to w.
func (r *reader) writePart(w io.Writer) (n int, err error) {
	p, c, err := r.borrow()
	if err != nil {
		return 0, err
	}
	defer r.rx.leave()
	n, err = w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	r.c.counts.bytesIn.Add(uint64(n))
	r.rx.mu.Lock()
	defer r.rx.mu.Unlock()
	if r.in.views--; c != nil {
		c.drop()
		r.in.release(1)
	}
	r.c.signal(&r.c.readWait) // a Read that came meanwhile could not fetch
	return n, err
}

// borrow waits for data and takes it out of the stream. The data stays until leave. c is the
// chunk with the data, or nil.
func (r *reader) borrow() (p []byte, c *chunk, err error) {
	r.calls.Lock()
	defer r.calls.Unlock()
	for {
		r.c.readWait.flag.Store(false)
		r.rx.mu.Lock()
		p, c, err = r.viewLocked()
		r.rx.mu.Unlock()
		if len(p) > 0 || err != nil {
			return p, c, err
		}
		r.c.wait(&r.c.readWait)
	}
}

// viewLocked takes the first data out of the stream, or starts to fetch it.
func (r *reader) viewLocked() (p []byte, c *chunk, err error) {
	in := r.in
	if err := r.readableLocked(); err != nil {
		return nil, nil, err
	}
	in.dropRead()
	if in.items.len() == 0 {
		return nil, nil, in.ended()
	}
	it := in.items.at(0)
	if len(it.data) > 0 {
		p, c = it.data, it.chunk
		it.data, it.chunk = nil, nil
		if in.views++; it.offer == nil {
			in.items.pop()
		}
		r.rx.users++
		return p, c, nil
	}
	in.fetch.abandon()
	if in.fetch.isIdle() && in.views == 0 && r.c.failure() == nil {
		in.fetchAside(it.offer)
	}
	return nil, nil, r.c.failure()
}
