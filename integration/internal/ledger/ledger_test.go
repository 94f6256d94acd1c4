package ledger

import "testing"

// row is a ledger of a few blocks with its contents.
type row struct {
	t *testing.T
	l *Ledger
}

const rowBlocks = 4

func newRow(t *testing.T) row { return row{t, New(7, 10, rowBlocks)} }

func (r row) content(writes ...uint64) []byte {
	p := make([]byte, rowBlocks*BlockSize)
	for i, w := range writes {
		Fill(p[i*BlockSize:][:BlockSize], 7, 10+i, w)
	}
	return p
}

// try checks whether blocks of these writes fit a view.
func (r row) try(what string, v View, want bool, writes ...uint64) {
	r.t.Helper()
	if err := r.l.Check(v, r.content(writes...), 0); (err == nil) != want {
		r.t.Errorf("%s: %v: %v", what, writes, err)
	}
}

func (r row) now() View { return r.l.View(0, rowBlocks) }

// A read returns the last write of a block, or a write that may have been done after it.
func TestLedgerChecksReads(t *testing.T) {
	r := newRow(t)
	before := r.now()
	r.try("nothing written", before, true, 0, 0, 0, 0)
	r.try("nothing written", before, false, 0, 0, 0, 1)
	r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, 2, true)
	r.try("written meanwhile", before, true, 1, 0, 1, 0)
	r.try("half done, half late", r.now(), true, 1, 1, 0, 1)
	r.try("half done, half late", r.now(), false, 0, 1, 0, 1)
	r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, rowBlocks, false)
	r.try("over late blocks", r.now(), true, 2, 2, 1, 2)
	r.l.Settle()
	r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, rowBlocks, false)
	r.try("after that", r.now(), false, 3, 3, 1, 3)
	r.try("after that", r.now(), true, 3, 3, 3, 3)
	p := r.content(3, 3, 3, 3)
	p[BlockSize+100] ^= 1
	if r.l.Check(r.now(), p, 0) == nil {
		t.Error("a wrong bit is not seen")
	}
	p = r.content(3, 3, 3, 3)
	copy(p, p[BlockSize:2*BlockSize])
	if r.l.Check(r.now(), p, 0) == nil {
		t.Error("a block of another place is not seen")
	}
}

// A file at rest holds whole writes, and of a write that is not answered any part.
func TestLedgerChecksFilesAtRest(t *testing.T) {
	r := newRow(t)
	r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, rowBlocks, false)
	write := r.l.Begin(1, 2)
	v := r.now()
	r.l.End(write, 1, 2, 0, true)
	r.l.Begin(0, rowBlocks)
	for _, c := range []struct {
		writes []uint64
		want   bool
	}{
		{[]uint64{1, 1, 1, 1}, true},
		{[]uint64{1, 2, 1, 1}, true},
		{[]uint64{2, 2, 1, 1}, false}, // outside of the write
		{[]uint64{1, 3, 1, 1}, false}, // the write began later
		{[]uint64{1, 0, 1, 1}, false},
	} {
		if err := r.l.CheckAtRest(v, r.content(c.writes...), 0); (err == nil) != c.want {
			t.Errorf("%v: %v", c.writes, err)
		}
	}
	p := r.content(1, 2, 1, 1)
	p[BlockSize+100] ^= 1
	if r.l.CheckAtRest(v, p, 0) == nil {
		t.Error("a torn block is not seen")
	}
}

// A refused write appears nowhere.
func TestLedgerSeesRefusedWrites(t *testing.T) {
	r := newRow(t)
	r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, 1, false)
	r.try("the rest was refused", r.now(), true, 1, 0, 0, 0)
	r.try("the rest was refused", r.now(), false, 1, 0, 1, 0)
}

// After a loss of power a block holds the last synced write, or a later one.
func TestLedgerKnowsSyncedWrites(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		r := newRow(t)
		r.l.Volatile = volatile
		write := func() { r.l.End(r.l.Begin(0, rowBlocks), 0, rowBlocks, rowBlocks, false) }
		write()
		r.l.Synced()
		write()
		write()
		r.try("with power", r.now(), false, 3, 3, 2, 3)
		r.l.PowerCut()
		r.try("newest", r.now(), true, 3, 3, 3, 3)
		r.try("not synced", r.now(), volatile, 3, 2, 1, 3)
		r.try("synced", r.now(), false, 3, 0, 3, 3)
		last := r.l.Begin(0, rowBlocks)
		r.l.PowerCut()
		r.l.End(last, 0, rowBlocks, rowBlocks, false)
		r.try("acknowledged before the cut", r.now(), true, 4, 4, 4, 4)
		r.try("lost by the cut", r.now(), volatile, 3, 4, 4, 4)
		write()
		r.try("afterwards", r.now(), false, 5, 4, 5, 5)
	}
}
