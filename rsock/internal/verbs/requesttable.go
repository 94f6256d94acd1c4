package verbs

// request is a pending request.
type request struct {
	o      *Overlapped
	op     string
	length int // bytes of its buffers
	n      int // of regs
	regs   [MaxBuffers]*registration
}

// requestTable holds the pending requests of one kind. Socket.mu guards it.
type requestTable struct {
	all  []request
	free []uint32
}

func (t *requestTable) init(depth int) {
	t.all, t.free = make([]request, depth), make([]uint32, depth)
	for i := range t.free {
		t.free[i] = uint32(i)
	}
}

// used returns how many requests are pending.
func (t *requestTable) used() int { return len(t.all) - len(t.free) }

// take returns a free entry. Precondition: there is one.
func (t *requestTable) take() uint32 {
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return i
}

// give frees an entry and the registrations that its request used, and returns the request.
func (t *requestTable) give(i uint32) request {
	p := &t.all[i]
	was := *p
	for _, r := range p.regs[:p.n] {
		r.pending--
	}
	*p = request{}
	t.free = append(t.free, i)
	return was
}
