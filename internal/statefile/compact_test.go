package statefile

import (
	"errors"
	"testing"
)

// grower puts large batches of small records into a log: n records of the size of a lock each.
type grower struct {
	t    *testing.T
	log  *Log
	last uint64
	want int // present records
}

const (
	lockValue = 17
	// manyLocks is the number of records whose batch is a little smaller than MaxBatch.
	manyLocks = MaxBatch/(putSize+lockValue) - 10
)

func (g *grower) put(n int) (keys []Key) {
	g.t.Helper()
	var b Batch
	for range n {
		g.last++
		keys = append(keys, Key{1, g.last})
		b.Put(keys[len(keys)-1], make([]byte, lockValue))
	}
	if err := g.log.Apply(&b); err != nil {
		g.t.Fatal(err)
	}
	g.want += n
	return keys
}

func (g *grower) remove(keys []Key) {
	g.t.Helper()
	var b Batch
	for _, k := range keys {
		b.Delete(k)
	}
	if err := g.log.Apply(&b); err != nil {
		g.t.Fatal(err)
	}
	g.want -= len(keys)
}

// compact makes changes until the log has compacted a file. The first batch of the new file stays.
func (g *grower) compact(n int) {
	g.t.Helper()
	for g.log.old == nil {
		g.remove(g.put(n))
	}
	g.put(n)
	for i := 0; g.log.old != nil; i++ {
		if g.remove(g.put(n)); i > 1000 {
			g.t.Fatalf("compaction does not end: %v", g.log.Stats().Failure)
		}
	}
}

// reopened checks that an Open finds the records.
func (g *grower) reopened(d *fakeDir) {
	g.t.Helper()
	if err := g.log.Close(); err != nil {
		g.t.Fatal(err)
	}
	got, err := contents(mustOpen(g.t, d))
	if err != nil || len(got) != g.want {
		g.t.Fatalf("%d records, %v; want %d", len(got), err, g.want)
	}
}

// A compaction joins the records of frames that earlier compactions have joined. Its frames stay as
// short as Open reads them.
func TestCompactionOfJoinedFramesIsReadable(t *testing.T) {
	d := newFakeDir()
	l, err := openLog(d, boot, defaultSizes)
	if err != nil {
		t.Fatal(err)
	}
	g := &grower{t: t, log: l}
	for range 4 {
		g.put(manyLocks)
	}
	for range 3 {
		g.compact(manyLocks)
	}
	g.reopened(d)
}

// A read of the old file fails in the middle of a compaction. The records that were read before are copied
// after it.
func TestReadThatFailsInCompactionLosesNoRecord(t *testing.T) {
	d := newFakeDir()
	l, err := openLog(d, boot, defaultSizes)
	if err != nil {
		t.Fatal(err)
	}
	g := &grower{t: t, log: l}
	for range 200 {
		g.put(20)
	}
	for l.old == nil {
		g.remove(g.put(manyLocks))
	}
	reads := 0
	d.fail = func(op string) error {
		if op != "read" {
			return nil
		}
		if reads++; reads == 2 { // behind the first frames of the part
			return errors.New("input/output error")
		}
		return nil
	}
	g.compact(manyLocks)
	if reads < 3 {
		t.Fatalf("%d reads", reads)
	}
	g.reopened(d)
}
