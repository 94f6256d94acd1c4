package poller

// Serve is the work of the reader goroutine, until over is closed. While the reader is the
// poller, Serve calls step again and again. step takes the completions that are there, or
// sleeps at w until end holds or a completion comes. The caller closes over before it calls
// [Poller.WakePoller].
func (p *Poller) Serve(over <-chan struct{}, step func(w *Waiter, end Condition)) {
	end := &turnEnd{p, over}
	defer p.timer.Stop()
	for {
		select {
		case <-over:
			return
		case <-p.summon:
		}
		if !p.takeForReader() {
			continue
		}
		for !end.Ready() {
			step(&p.reader, end)
		}
		p.Pass()
	}
}

// turnEnd is the condition that the reader passes the role on: a call wants the role, or the
// connection is over.
type turnEnd struct {
	p    *Poller
	over <-chan struct{}
}

// Ready reports that the turn of the reader is over.
func (e *turnEnd) Ready() bool {
	if e.p.used.Load() {
		return true
	}
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// takeForReader makes the reader the poller and returns true, unless a goroutine is the poller.
// It also leaves the role free if a call has used it since the timer fired and no wait needs
// the reader.
func (p *Poller) takeForReader() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken.Load() {
		return false // Pass starts the timer
	}
	if p.used.Swap(false) && p.readerOnly.Load() == 0 {
		p.armLocked()
		return false
	}
	p.taken.Store(true)
	p.byReader = true
	p.rest = p.shortest
	return true
}

// tick summons the reader if the role is free and no call has used it since the last tick. The
// timer calls it.
func (p *Poller) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	taken := p.taken.Load()
	if !taken && !p.used.Swap(false) {
		p.summonLocked()
		return
	}
	p.rest = min(2*p.rest, p.longest)
	if !taken {
		p.armLocked()
	} // else Pass starts the timer
}

// armLocked starts the timer unless it runs.
func (p *Poller) armLocked() {
	if !p.armed {
		p.armed = true
		p.timer.Reset(p.rest)
	}
}

// summonLocked wakes the reader if the role is free.
func (p *Poller) summonLocked() {
	if p.taken.Load() {
		return
	}
	select {
	case p.summon <- struct{}{}:
	default:
	}
}
