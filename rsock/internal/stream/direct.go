package stream

// A Read starts fetches for all offers that fit into its memory before it copies data that
// is here. So the peer does not wait between two fetches.

// maxDirect is how many fetches a Read may have in flight.
const maxDirect = 4

// fill copies data that is here to p, and fetches offers into the rest of p if a fetch is
// large enough. follows says that p is the rest of the memory of a Read; then a small fetch
// is enough. pending says that fetches into p are in flight, so the Read must not return p.
func (in *input) fill(p []byte, follows bool) (n int, pending bool) {
	g := &in.fetch
	for {
		in.fetchDirect(p[n:], follows || n > 0)
		used := g.used
		k := in.collect(p[n:])
		if n += k; k == 0 && g.used == used || n == len(p) {
			return n, g.used > 0
		}
	}
}

// fetchDirect fetches offers straight into p, behind the data that is here and the fetches in
// flight.
//
// Source: [WSD §5.2]
func (in *input) fetchDirect(p []byte, follows bool) {
	if in.views > 0 || in.c.failure() != nil {
		return
	}
	at := 0
	for i := range in.items.len() {
		it := in.items.at(i)
		at += len(it.data)
		t := it.offer
		if t == nil {
			continue
		}
		at += in.fetch.placed(t)
		for t.left() > 0 {
			n := in.fetch.startDirect(t, p[min(at, len(p)):], follows || at > 0)
			if n == 0 {
				return
			}
			at += n
		}
	}
}

// collect takes data that is here, and the fetches that have ended, for a Read with the
// memory p, in the order of the stream. It ends a fetch that brought no bytes even if bytes
// before the fetch are missing.
func (in *input) collect(p []byte) (n int) {
	g := &in.fetch
	for {
		n += in.copyTo(p[n:])
		f := g.oldest()
		if g.used == 0 || f.busy {
			return n
		}
		if it := in.items.at(0); f.got > 0 && (it.offer != f.offer || len(it.data) > 0 || g.isAside(f.offer)) {
			return n
		}
		n += f.got
		in.dropOldest()
	}
}

// collectLate takes the data that has come into the memory p of a Read that ends. After
// CloseRead it drops the data.
func (in *input) collectLate(p []byte) (n int) {
	g := &in.fetch
	if !in.discard {
		if g.used > 0 {
			n = in.collect(p)
		}
		return n
	}
	for g.used > 0 && !g.oldest().busy {
		in.dropOldest()
	}
	return 0
}

// dropOldest ends the oldest fetch into the memory of a Read. Precondition: it is not busy.
func (in *input) dropOldest() {
	in.fetch.popOldest()
	in.c.readWait.bulk = in.c.bulkIn.isBulk()
	in.dropRead()
	in.progressed()
}
