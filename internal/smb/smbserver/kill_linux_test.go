package smbserver

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// killedDir is the environment variable with the directory of TestServerProcess.
const killedDir = "LWIO_TEST_KILLED_DIR"

// TestServerProcess is the server that TestKilledServerGivesEverythingBack kills.
func TestServerProcess(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // no test by itself
	}
	r := &restarts{t: t, data: filepath.Join(dir, "data"), state: filepath.Join(dir, "state"), users: []string{testUser, "bob"}, rights: vfs.ReadWrite}
	_, addr := r.start()
	fmt.Printf("serves %s\n", addr)
	select {}
}

// victim is a server process.
type victim struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
}

func (v *victim) start() {
	v.t.Helper()
	v.cmd = exec.Command(os.Args[0], "-test.run=^TestServerProcess$")
	v.cmd.Env, v.cmd.Stderr = append(os.Environ(), killedDir+"="+v.dir), os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		v.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "serves "); ok {
			v.addr = addr
			return
		}
	}
	v.t.Fatalf("the server process ended: %v", v.cmd.Wait())
}

// kill kills the process and waits for its end.
func (v *victim) kill() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait() // which reports the kill
}

// stateClient makes opens and locks and knows which of them the server has acknowledged.
type stateClient struct {
	*raw
	t     *testing.T
	next  int            // GUID of the next open
	opens map[int]*owned // by GUID
	step  uint32         // number of lock sequences
	// pending is the request that was not answered, to be sent again; nil for none.
	pending func() ntstatus.Status
}

// owned is an open of a stateClient.
type owned struct {
	guid  int
	name  string
	id    [16]byte
	locks map[uint64]bool // by offset
}

// try sends a message. It reports false if the connection is lost before the answer.
func (c *stateClient) try(m []byte) (reply, bool) {
	if err := c.nc.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Write(c.frame(m)); err != nil {
		return reply{}, false
	}
	b, err := c.readFrame()
	if err != nil {
		return reply{}, false
	}
	return reply{status: ntstatus.Status(le.Uint32(b[8:])), body: b[64:]}, true
}

// do carries out a request, whose success is noted by done. Without an answer it becomes pending.
func (c *stateClient) do(request func() ([]byte, func(body []byte))) bool {
	m, done := request()
	r, ok := c.try(m)
	if !ok {
		c.pending = func() ntstatus.Status {
			m, done := request()
			r, ok := c.try(replay(m))
			if !ok {
				c.t.Fatal("no answer to a repeated request")
			}
			if r.status == ntstatus.Success {
				done(r.body)
			}
			return r.status
		}
		return false
	}
	if r.status != ntstatus.Success {
		c.t.Fatalf("%v", r.status)
	}
	done(r.body)
	return true
}

// act does one thing at random. It reports false if the connection is lost.
func (c *stateClient) act() bool {
	var all []*owned
	for _, o := range c.opens {
		all = append(all, o)
	}
	if len(all) == 0 || len(all) < 8 && rand.IntN(4) == 0 {
		o := &owned{guid: c.next, name: fmt.Sprint("f", c.next%3), locks: make(map[uint64]bool)}
		c.next++
		return c.do(func() ([]byte, func([]byte)) {
			m := c.message(cmdCreate, persistent(create{name: o.name, access: 3, share: 7, disposition: 3}, o.guid, 0).body())
			return m, func(body []byte) {
				o.id = [16]byte(body[64:80])
				c.opens[o.guid] = o
			}
		})
	}
	o := all[rand.IntN(len(all))]
	if rand.IntN(10) == 0 {
		return c.do(func() ([]byte, func([]byte)) {
			return c.message(cmdClose, closeBody(o.id, 0)), func([]byte) { delete(c.opens, o.guid) }
		})
	}
	c.step++
	step, off := c.step, uint64(o.guid)*100+rand.Uint64N(20)
	flags := uint32(lockExclusive | lockNow)
	if o.locks[off] {
		flags = lockUnlock
	}
	return c.do(func() ([]byte, func([]byte)) {
		m := c.message(cmdLock, sequenced(lockBody(o.id, element{off, 1, flags}), 1+step%64, step/64%16))
		return m, func([]byte) { o.locks[off] = !o.locks[off] }
	})
}

// comeBack logs on again, takes the opens over and sends the pending request again. A close that was done
// makes the reclaim of its open fail.
func (c *stateClient) comeBack(addr string) {
	c.t.Helper()
	c.raw = c.raw.resume(addr)
	for guid, o := range c.opens {
		r, ok := c.try(c.message(cmdCreate, reclaiming(o.id, guid).body()))
		switch {
		case !ok:
			c.t.Fatal("no answer to a reclaim")
		case r.status == ntstatus.ObjectNameNotFound && c.pending != nil:
			c.opens[guid] = nil // perhaps closed by the pending request
		case r.status != ntstatus.Success:
			c.t.Fatalf("reclaim of the open %d: %v", guid, r.status)
		default:
			o.id = [16]byte(r.body[64:80])
		}
	}
	gone := 0
	for guid, o := range c.opens {
		if o == nil {
			delete(c.opens, guid)
			gone++
		}
	}
	if c.pending == nil {
		return
	}
	switch st := c.pending(); {
	case gone == 1 && st != ntstatus.Success: // the close was done
	case gone > 0 || st != ntstatus.Success:
		c.t.Fatalf("repeated request: %v, with %d opens gone", st, gone)
	}
	c.pending = nil
}

// check compares the locks at the server with those that the client knows, from another session.
func (c *stateClient) check(addr string) {
	c.t.Helper()
	bob := as(c.t, addr, "bob")
	defer bob.nc.Close()
	held := map[string]bool{}
	for _, o := range c.opens {
		for off, on := range o.locks {
			held[fmt.Sprint(o.name, " ", off)] = on
		}
	}
	for file := range 3 {
		name := fmt.Sprint("f", file)
		id := bob.mustCreate(create{name: name, access: 3, share: 7, disposition: 3})
		for guid := file; guid < c.next; guid += 3 {
			if c.opens[guid] == nil && guid < c.next-20 {
				continue
			}
			for off := uint64(guid) * 100; off < uint64(guid)*100+20; off++ {
				want := ntstatus.Success
				if held[fmt.Sprint(name, " ", off)] {
					want = ntstatus.LockNotGranted
				}
				bob.want(want, cmdLock, unnumbered(id, element{off, 1, lockExclusive | lockNow}))
			}
		}
		bob.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	}
}

// A server that is killed at a random moment, again and again, has all opens and locks that it has
// acknowledged, and none that it has released, after each restart. A request that it did not answer is
// done once.
func TestKilledServerGivesEverythingBack(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	v := &victim{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(v.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	v.start()
	defer func() { v.kill() }()
	c := &stateClient{raw: mount(t, v.addr, "data"), t: t, opens: make(map[int]*owned)}
	for range rounds {
		timer := time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, func() { _ = v.cmd.Process.Kill() })
		for c.act() {
		}
		timer.Stop()
		v.kill()
		v.start()
		c.comeBack(v.addr)
		c.check(v.addr)
	}
	for guid, o := range c.opens {
		c.want(ntstatus.Success, cmdClose, closeBody(o.id, 0))
		delete(c.opens, guid)
	}
	c.check(v.addr)
	v.kill()
	r := &restarts{t: t, data: filepath.Join(v.dir, "data"), state: filepath.Join(v.dir, "state"), users: []string{testUser}, rights: vfs.ReadWrite}
	s, _ := r.start()
	defer r.stop()
	r.wantState(0, 0)
	if st := s.Stats(); st.Restored != 0 || st.NotRestored != 0 {
		t.Errorf("%d opens restored, %d not", st.Restored, st.NotRestored)
	}
}
