package verbs

// slot is a request that is pending.
type slot struct {
	o      *Overlapped
	op     string
	length int // bytes that it names
	n      int // of regs
	regs   [MaxBuffers]*registration
}

// slots are the places for requests of one kind; who uses them holds Socket.mu.
type slots struct {
	all  []slot
	free []uint32
}

func (t *slots) init(depth int) {
	t.all, t.free = make([]slot, depth), make([]uint32, depth)
	for i := range t.free {
		t.free[i] = uint32(i)
	}
}

// used is how many are pending.
func (t *slots) used() int { return len(t.all) - len(t.free) }

// take gives a free place; there must be one.
func (t *slots) take() uint32 {
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return i
}

// give frees a place, and the registrations that its request used, and returns what
// it was.
func (t *slots) give(i uint32) slot {
	p := &t.all[i]
	was := *p
	for _, r := range p.regs[:p.n] {
		r.pending--
	}
	*p = slot{}
	t.free = append(t.free, i)
	return was
}
