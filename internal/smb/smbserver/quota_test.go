package smbserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
)

// Requests are granted in turn, except that no user waits for the part of another.
func TestMemoryQuotaGrantsInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMemoryQuota(100)
		order := make(chan string, 10)
		ask := func(user string, n int) {
			go func() {
				if err := b.take(t.Context(), user, n); err != nil {
					t.Error(err)
				}
				order <- user
			}()
			synctest.Wait()
		}
		want := func(users ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if slices.Sort(got); !slices.Equal(got, users) {
				t.Fatalf("%v have it, want %v", got, users)
			}
		}
		ask("alice", 70)
		want("alice")
		ask("alice", 10) // above three quarters
		want()
		ask("bob", 20)
		want("bob")
		ask("carol", 30) // above the limit
		want()
		ask("dave", 5) // would fit, but carol was first
		want()
		if b.tryTake("dave", 5) {
			t.Error("dave went past carol")
		}
		b.Give("bob", 20)
		want("carol")
		b.Give("alice", 70)
		want("alice", "dave")
		b.Give("alice", 10)
		b.Give("carol", 30)
		if !b.tryTake("eve", 75) || b.tryTake("eve", 1) || b.tryTake("bob", 21) {
			t.Error("wrong about the free bytes")
		}
		b.Give("eve", 75)
		b.Give("dave", 5)
		if !b.tryTake("eve", 1000) || b.tryTake("bob", 1) {
			t.Error("wrong about a request above the limit")
		}
		b.Give("eve", 1000)
	})
}

// The end of a wait leaves no bytes taken, also if it was granted at the same moment, and the
// next in the queue is granted.
func TestMemoryQuotaWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMemoryQuota(100)
		why := errors.New("why")
		for range 100 {
			b.tryTake("alice", 60)
			ctx, cancel := context.WithCancelCause(t.Context())
			done, behind := make(chan error, 1), make(chan error, 1)
			go func() { done <- b.take(ctx, "bob", 50) }()
			synctest.Wait()
			go func() { behind <- b.take(t.Context(), "carol", 40) }()
			synctest.Wait()
			go b.Give("alice", 60)
			cancel(why)
			if err := <-done; err == nil {
				b.Give("bob", 50)
			} else if !errors.Is(err, why) {
				t.Fatal(err)
			}
			if err := <-behind; err != nil {
				t.Fatal(err)
			}
			b.Give("carol", 40)
			synctest.Wait()
			if b.used != 0 || len(b.byUser) != 0 || len(b.waiting) != 0 {
				t.Fatalf("%d bytes, %d users, %d waiting are left", b.used, len(b.byUser), len(b.waiting))
			}
		}
	})
}

// Source: [MS-SMB2 3.3.5.2] (the limit is ours)
func TestMemoryQuotaBoundsUserAndTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		b := newMemoryQuota(most)
		type held struct {
			user string
			n    int
		}
		var all []held
		sum := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				b.Give(all[i].user, all[i].n)
				sum -= all[i].n
				all = append(all[:i], all[i+1:]...)
				continue
			}
			h := held{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"), rapid.IntRange(1, 600).Draw(t, "n")}
			if b.tryTake(h.user, h.n) {
				all = append(all, h)
				sum += h.n
			}
			if sum > most || b.used != int64(sum) {
				t.Fatalf("%d taken, %d counted, of %d", sum, b.used, most)
			}
			if mine := b.byUser[h.user]; mine > most*3/4 {
				t.Fatalf("a user has %d", mine)
			}
		}
	})
}

// A user that requests reads on many connections and takes no response holds a bounded part
// of the memory; others read and write.
func TestUnreadResponsesHoldBoundedMemory(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Memory, c.StallTimeout = 1, time.Hour })
	good := dial(t, addr)
	good.mustNegotiate(0x0311)
	good.mustSetup("bob", testPassword)
	good.mustConnect("data")
	id := good.mustCreate(rw("f"))
	data := make([]byte, 1<<20)
	write := func(c *raw, id [16]byte) {
		c.send(c.charge(c.message(cmdWrite, writeBody(id, 0, data)), 16))
		if r := c.recv(); r[0].status != ntstatus.Success {
			t.Fatal(r[0].status)
		}
	}
	for range 16 { // for the credits
		good.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	write(good, id)
	for range 10 {
		c := mount(t, addr, "data")
		id := c.mustCreate(rw("f"))
		for range 8 {
			c.send(c.charge(c.message(cmdRead, readBody(id, 0, 1<<20, 0)), 16))
		}
	}
	for range 5 {
		write(good, id)
	}
	for hers := int64(0); hers < 2<<20; {
		s.memory.mu.Lock()
		m := s.memory
		if hers = m.byUser[testUser]; m.used > m.limit || hers > m.userLimit {
			t.Errorf("%d bytes of %d, one user %d", m.used, m.limit, hers)
		}
		s.memory.mu.Unlock()
		runtime.Gosched()
	}
}

// A compound that ends with the connection gives back the memory of its earlier responses.
//
// Source: [MS-SMB2 3.3.5.15.12]
func TestDroppedCompoundReturnsItsMemory(t *testing.T) {
	s, addr, dir := testServer(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	c := login(t, addr, 0x0302)
	c.mustConnect("data")
	id := c.mustCreate(rw("f"))
	c.send(
		c.message(cmdRead, readBody(id, 0, 1<<16, 0)),
		c.message(cmdIoctl, ioctlBody(noID, 0x00140204, make([]byte, 26), 24)), // wrong, so that the server cuts
	)
	c.wantCut()
	for end := time.Now().Add(ioTimeout); s.memory.inUse() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are not given back", s.memory.inUse())
		}
	}
}
