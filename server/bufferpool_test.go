package server

import (
	"slices"
	"testing"

	"lwio/internal/buddy"
	"lwio/vfs"
)

// newTestBufferPool returns a pool without memory.
func newTestBufferPool(blocks, top, share int) *bufferPool {
	return &bufferPool{
		share: share, half: blocks << top * blockUnit, ofUser: blocks << top * blockUnit, free: buddy.New(blocks<<top, top), spare: blocks << top * blockUnit,
		usages: make(map[vfs.NodeID]*fileUsage), users: make(map[string]*userUsage),
	}
}

// newTestLine returns a file queue without workers.
func newTestLine() *fileQueue { return newWorkerPool(0, nil).join(vfs.NodeID{}) }

// newTestOp returns an operation on its own file. The queue receives it with its block and has no
// workers. A connection without a user gets one of its own.
func newTestOp(c *conn, l *fileQueue, need int) *op {
	if c.poolUser == nil {
		c.poolUser = new(userUsage)
	}
	return &op{c: c, file: &registeredFile{usage: new(fileUsage)}, queue: l, need: need, block: none}
}

// takeAll takes blocks for a connection's file until there are none, and counts them.
func takeAll(a *bufferPool, c *conn, f *registeredFile, need int) (n int) {
	for {
		o := newTestOp(c, newTestLine(), need)
		if o.file = f; !a.take(o) {
			return n
		}
		n++
	}
}

func TestBufferPoolServesWaitersInOrder(t *testing.T) {
	l := newTestLine()
	a := newTestBufferPool(1, 2, 16*blockUnit)
	c := &conn{}
	big := newTestOp(c, l, 4*blockUnit)
	if !a.take(big) {
		t.Fatal("an empty pool has no memory")
	}
	first, second := newTestOp(&conn{}, l, 4*blockUnit), newTestOp(&conn{}, l, blockUnit)
	if a.take(first) || a.take(second) {
		t.Fatal("a full pool has memory")
	}
	a.give(big)
	if l.waiting != 1 || l.ops.head != first {
		t.Fatalf("%d operations go on, want the first", l.waiting)
	}
	if late := newTestOp(&conn{}, l, blockUnit); a.take(late) {
		t.Fatal("a newcomer overtook a waiter")
	}
	a.give(first)
	if l.waiting != 3 {
		t.Fatalf("%d operations went on, want 3", l.waiting)
	}
}

// A small block does not overtake a large block that waits.
func TestSmallBlocksDoNotOvertakeLargeOne(t *testing.T) {
	l := newTestLine()
	a := newTestBufferPool(1, 2, 16*blockUnit)
	little, much := newTestOp(&conn{}, l, 1), newTestOp(&conn{}, l, 4*blockUnit)
	if !a.take(little) || a.take(much) {
		t.Fatal("not the memory that this test thinks")
	}
	if late := newTestOp(&conn{}, l, 1); a.take(late) {
		t.Fatal("a newcomer overtook a waiter")
	}
	a.give(little)
	if l.ops.head != much {
		t.Fatal("the first waiter was not served first")
	}
}

// A connection above its share waits, and holds up no other.
func TestConnectionAboveShareWaitsAlone(t *testing.T) {
	l := newTestLine()
	a := newTestBufferPool(3, 3, 2*blockUnit)
	greedy := &conn{}
	ops := make([]*op, 3)
	for i := range ops {
		ops[i] = newTestOp(greedy, l, blockUnit)
		if got := a.take(ops[i]); got != (i < 2) {
			t.Fatalf("take %d = %v", i, got)
		}
	}
	other := newTestOp(&conn{}, l, 3*blockUnit)
	if !a.take(other) {
		t.Fatal("another connection is held up")
	}
	a.give(ops[0])
	if l.waiting != 1 || l.ops.head != ops[2] {
		t.Fatal("the freed share was not granted")
	}
	if greedy.poolBytes != 2*blockUnit {
		t.Fatalf("the connection holds %d bytes", greedy.poolBytes)
	}
}

// Many connections take all that they can and give nothing back: the next one still gets
// memory, and more than once.
func TestBufferPoolLeavesMemoryForNewConnections(t *testing.T) {
	const top = 3
	a := newTestBufferPool(64, top, 16*blockUnit<<top)
	for i := range 12 {
		c, f := &conn{}, &registeredFile{usage: new(fileUsage)}
		takeAll(a, c, f, blockUnit<<top)
		if c.poolBytes == 0 {
			t.Fatalf("connection %d gets nothing", i)
		}
	}
	late := &conn{}
	for i := range 4 {
		if !a.take(newTestOp(late, nil, blockUnit)) {
			t.Fatalf("a newcomer gets %d small blocks", i)
		}
	}
}

// All connections of a user, on all files, get at most three quarters of the pool.
func TestBufferPoolBoundsUsers(t *testing.T) {
	a := newTestBufferPool(16, 0, 4*blockUnit)
	a.ofUser = 12 * blockUnit
	hers, his := a.joinUser("alice"), a.joinUser("bob")
	n := 0
	for range 20 {
		c := &conn{poolUser: hers}
		if a.take(newTestOp(c, nil, blockUnit)) {
			n++
		}
	}
	if n != 12 || hers.held != 12*blockUnit {
		t.Errorf("%d blocks, %d bytes of the user", n, hers.held)
	}
	if !a.take(newTestOp(&conn{poolUser: his}, nil, blockUnit)) {
		t.Error("another user gets nothing")
	}
	if a.joinUser("alice") != hers {
		t.Error("a user has two parts")
	}
}

// A read above the share is served once the connection holds nothing.
func TestReadAboveShareIsServedAlone(t *testing.T) {
	a := newTestBufferPool(1, 3, blockUnit)
	o := newTestOp(&conn{}, nil, 8*blockUnit)
	if !a.take(o) {
		t.Fatal("refused for good")
	}
	a.give(o)
	if o.c.poolBytes != 0 || !a.take(o) {
		t.Fatal("memory is lost")
	}
}

// The operations of a list give their blocks back together, and waiting ones are served once
// there is enough.
func TestGiveAllServesWaiters(t *testing.T) {
	l := newTestLine()
	a := newTestBufferPool(1, 2, 16*blockUnit)
	var list opList
	a.giveAll(&list)
	var ops []*op
	for range 4 {
		o := newTestOp(&conn{}, l, blockUnit)
		if !a.take(o) {
			t.Fatal("no memory")
		}
		list.push(newTestOp(&conn{}, l, blockUnit)) // without a block
		list.push(o)
		ops = append(ops, o)
	}
	waiting := newTestOp(&conn{}, l, 4*blockUnit)
	if a.take(waiting) {
		t.Fatal("more memory than there is")
	}
	a.giveAll(&list)
	if l.waiting != 1 || l.ops.head != waiting || waiting.block == none {
		t.Error("the waiting operation has no block")
	}
	for i, o := range ops {
		if o.block != none || o.file.memory != 0 || o.c.poolBytes != 0 {
			t.Errorf("operation %d has its block", i)
		}
	}
	a.giveAll(&list) // does nothing
	if a.spare != 0 {
		t.Error("given back twice")
	}
}

func TestRemovedWaiterGetsNoMemory(t *testing.T) {
	l := newTestLine()
	a := newTestBufferPool(1, 0, blockUnit)
	o, waiting := newTestOp(&conn{}, l, 1), newTestOp(&conn{}, l, 1)
	a.take(o)
	a.take(waiting)
	if !a.remove(waiting) || a.remove(waiting) {
		t.Fatal("remove does not remove once")
	}
	a.give(o)
	if l.waiting != 0 {
		t.Fatal("a removed operation went on")
	}
}

func TestWorkersRunInOrderAndEnd(t *testing.T) {
	var got []uint32
	workers := newWorkerPool(1, func(o *op) { got = append(got, o.index) })
	l := workers.join(vfs.NodeID{})
	for i := range 100 {
		l.push(&op{index: uint32(i)})
	}
	workers.close()
	if len(got) != 100 {
		t.Fatalf("%d of 100 ran", len(got))
	}
	for i, index := range got {
		if int(index) != i {
			t.Fatalf("operation %d ran at place %d", index, i)
		}
	}
}

// A run is bounded, and an operation that does not join one begins the next.
func TestRunOfOperationsIsBounded(t *testing.T) {
	var got []int
	workers := newWorkerPool(1, func(o *op) {
		n := 1
		for o.joined.pop() != nil {
			n++
		}
		got = append(got, n)
	})
	workers.joins = func(last, next *op) bool { return next.index == last.index+1 }
	l := workers.join(vfs.NodeID{})
	workers.mu.Lock() // no worker begins before all wait
	for i := range 2*runOps + 3 {
		o := &op{index: uint32(i)}
		if i == 2*runOps+1 {
			o.index += 7
		}
		o.queued = true
		l.ops.push(o)
		l.waiting++
		workers.waiting++
	}
	workers.lineUpLocked(l)
	workers.callLocked()
	workers.mu.Unlock()
	workers.close()
	if want := []int{runOps, runOps, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("runs of %d operations, want %d", got, want)
	}
}

func TestRemovedOperationIsNotRun(t *testing.T) {
	l := newTestLine()
	a, b := &op{}, &op{}
	l.push(a)
	l.push(b)
	if !l.remove(a) || l.remove(a) || l.ops.head != b {
		t.Fatal("remove does not remove once")
	}
}

// A file has at most three quarters of the share of its connection, and half of all memory, and
// another file gets its own.
func TestFileShareOfBufferPoolIsBounded(t *testing.T) {
	const blocks = 32
	a := newTestBufferPool(blocks, 0, blocks/4*blockUnit)
	a.half = blocks / 2 * blockUnit
	p, all := new(fileUsage), 0
	for range 12 {
		c, f := &conn{}, &registeredFile{usage: p}
		n := takeAll(a, c, f, 1)
		if n > blocks/4*3/4 {
			t.Fatalf("one file of a connection holds %d of %d blocks", n, blocks)
		}
		all += n
		if !a.take(newTestOp(c, newTestLine(), 1)) {
			t.Fatalf("another file gets nothing after %d blocks", all)
		}
	}
	if all != blocks/2 {
		t.Errorf("one file holds %d of %d blocks", all, blocks)
	}
}

// A file that is registered again has the usage of its blocks that are not returned yet, else the
// bound of one file would not hold. The last block or the last user removes the usage.
func TestReregisteredFileKeepsItsUsage(t *testing.T) {
	node := vfs.NodeID{File: 1}
	for _, last := range []string{"block", "user"} {
		t.Run(last, func(t *testing.T) {
			a := newTestBufferPool(4, 0, 4*blockUnit)
			o := newTestOp(&conn{}, newTestLine(), 1)
			o.file.usage = a.join(node)
			if !a.take(o) {
				t.Fatal("an empty pool has no memory")
			}
			a.leave(o.file.usage)
			again := a.join(node)
			if again != o.file.usage {
				t.Fatal("the file has a new usage")
			}
			if last == "block" {
				a.leave(again)
				a.give(o)
			} else {
				a.give(o)
				if len(a.usages) != 1 {
					t.Error("a user has no usage")
				}
				a.leave(again)
			}
			if n := len(a.usages); n != 0 {
				t.Errorf("%d usages are left", n)
			}
		})
	}
}

func TestBlockOrderHoldsSize(t *testing.T) {
	for _, c := range []struct{ n, want int }{
		{1, 0}, {4096, 0}, {4097, 1}, {8192, 1}, {8193, 2}, {64 << 10, 4}, {512 << 10, 7}, {512<<10 + 1, 8},
	} {
		if got := orderOf(c.n); got != c.want {
			t.Errorf("orderOf(%d) = %d, want %d", c.n, got, c.want)
		}
	}
}
