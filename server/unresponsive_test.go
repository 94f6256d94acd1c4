package server

import (
	"fmt"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// slowEnv is an env with an unresponsive file, "slow", of 1 MiB, beside others.
func slowEnv(t *testing.T, on string, l Limits) (*gate, *env) {
	t.Helper()
	b := newGate(t)
	b.slow = "slow"
	v := newEnv(t, envConfig{on: on, backend: b, limits: l})
	b.make("slow", content(1<<20))
	b.make("other", []byte("other"))
	b.make("big", content(1<<20))
	b.shut()
	return b, v
}

// as returns a client of a session of its own, and a function that opens files for it.
func (v *env) as(id uint64) (c *rawClient, open func(name string) uint16) {
	v.t.Helper()
	sess := newFakeSession(id)
	n := v.negotiate(sess)
	c = v.connect(n)
	c.auth(n, authOptions{})
	return c, func(name string) uint16 {
		v.t.Helper()
		return c.register(v.open(name, vfs.ReadData|vfs.WriteData, 0, sess))
	}
}

// stuck sends requests for the slow file with all credits but one, and returns their number.
func (c *rawClient) stuck(fid uint16) (n int) {
	c.t.Helper()
	for ; n < c.credits-1; n++ {
		if n%3 == 0 {
			c.send(writeHeader(fid, 0, 4), []byte("data"))
		} else {
			c.send(c.readHeader(fid, 0, 512<<10, 0), nil)
		}
	}
	return n
}

// An unresponsive file delays no other file of any connection, under large reads and writes by more
// connections than it has workers.
//
// Source: [LWIO §I/O Processing] [OP-109]
func TestUnresponsiveFileHoldsUpNoOther(t *testing.T) { onEach(t, testUnresponsiveFileHoldsUpNoOther) }

func testUnresponsiveFileHoldsUpNoOther(t *testing.T, on string) {
	b, v := slowEnv(t, on, Limits{Workers: 2, ReadBufferBytes: 16 << 20})
	type client struct {
		*rawClient
		slow, other, big uint16
		stuck            int
	}
	var clients []*client
	for id := range uint64(6) {
		c, open := v.as(10 + id)
		x := &client{c, open("slow"), open("other"), open("big"), 0}
		clients = append(clients, x)
		if id < 5 {
			x.stuck = c.stuck(x.slow)
		}
	}
	for _, c := range clients {
		c.want(ntstatus.Success, 5, c.readHeader(c.other, 0, 100, 1<<20), nil)
		c.want(ntstatus.Success, 5, writeHeader(c.other, 0, 5), []byte("OTHER"))
		c.want(ntstatus.Success, 256<<10, c.readHeader(c.big, 0, 256<<10, 1<<20), nil)
	}
	eventually(t, "the slow file has all its workers", func() bool { return b.waiting() == 2*2 })
	b.open()
	for _, c := range clients {
		for range c.stuck {
			if s := c.reply(); s.Status != 0 {
				t.Errorf("%+v from the slow file", s)
			}
		}
		v.serves()
	}
}

// Several unresponsive files, of as many connections, hold up no other file.
//
// Source: [LWIO §I/O Processing] [OP-109]
func TestUnresponsiveFilesHoldUpNoOther(t *testing.T) {
	b := newGate(t)
	v := newEnv(t, envConfig{backend: b, limits: Limits{Workers: 2}})
	const files = 8
	for i := range files {
		b.make(fmt.Sprint("slow", i), content(4096))
	}
	var clients []*rawClient
	var stuck int
	b.shut()
	for i := range files {
		c, open := v.as(uint64(10 + i))
		stuck = c.stuck(open(fmt.Sprint("slow", i)))
		clients = append(clients, c)
	}
	eventually(t, "each file has its workers", func() bool { return b.waiting() == files*4 })
	b.slow = "nothing more"
	b.make("other", []byte("other"))
	v.serves()
	b.open()
	for _, c := range clients {
		for range stuck {
			if s := c.reply(); s.Status != 0 {
				t.Errorf("%+v from a slow file", s)
			}
		}
	}
}

// A file that is closed and registered again shares queues and memory with the I/O that is still
// in flight; else a client would get one worker after another for an unresponsive file.
//
// Source: [LWIO §Close] [OP-94d]
func TestReregisteredFileSharesItsQueue(t *testing.T) {
	c, _ := newFuzzConn(t)
	o, err := c.ops.take(c)
	if err != nil {
		t.Fatal(err)
	}
	o.h = by(wire.NewRead(1, 0, wire.RDMARegion{Length: 8}), completion{Cookie: 1})
	c.begin(o)
	f := o.file
	for _, x := range []*registeredFile{c.files.get(1), c.files.get(2), c.files.get(3)} {
		c.files.remove(x, &c.jobs)
		x.release()
		c.jobs.Done()
	}
	again := &registeredFile{open: f.open}
	again.join(c.engine, c.fabric.buffers)
	if again.reading != f.reading || again.writing != f.writing || again.usage != f.usage {
		t.Error("the file has new queues")
	}
	f.release()
	again.detach()
	if n := len(c.engine.readers.queues) + len(c.engine.writers.queues) + len(c.fabric.buffers.usages); n != 0 {
		t.Errorf("%d queues are left in the end", n)
	}
}
