package smbclient

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// In any order of takes and grants, no call gets more credits than there are, and no call
// waits when no response is outstanding.
//
// Source: [MS-SMB2 3.2.4.1.2], [MS-SMB2 3.2.5.1.4]
func TestCreditsAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := credits{target: 100, held: 1}
		total, out := 1, []int(nil)
		var waiting []*creditWaiter
		collect := func() {
			waiting = slices.DeleteFunc(waiting, func(w *creditWaiter) bool {
				select {
				case n, ok := <-w.got:
					if ok {
						out = append(out, n)
					}
					return true
				default:
					return false
				}
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				want := rapid.IntRange(1, 8).Draw(rt, "want")
				least := rapid.IntRange(1, want).Draw(rt, "least")
				if len(c.queue) == 0 {
					got, wait := c.tryLocked(least, want)
					if !wait {
						if got > 0 {
							out = append(out, got)
						}
						return
					}
				}
				w := &creditWaiter{least: least, want: want, got: make(chan int, 1)}
				c.queue = append(c.queue, w)
				waiting = append(waiting, w)
			},
			"response": func(rt *rapid.T) {
				if len(out) == 0 {
					return
				}
				charge, granted := out[0], rapid.IntRange(0, 10).Draw(rt, "granted")
				out = out[1:]
				total += granted - charge
				c.grantLocked(charge, granted)
				collect()
			},
			"": func(rt *rapid.T) {
				spent := 0
				for _, n := range out {
					spent += n
				}
				if c.spent != spent || c.held != total-spent || c.held < 0 {
					rt.Fatalf("%d spent, %d held; want %d, %d", c.spent, c.held, spent, total-spent)
				}
				if spent == 0 && len(waiting) > 0 {
					rt.Fatal("a wait that nothing will end")
				}
			},
		})
	})
}

// Responses arrive in any order, some of them together in one message.
//
// Source: [MS-SMB2 3.2.5.1.8], [MS-SMB2 3.2.5.1.9]
func TestResponsesArriveInAnyOrder(t *testing.T) {
	const calls = 4
	var frames [][]byte
	_, tree := fakeMount(t, onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, body []byte) {
		q, err := smbwire.DecodeReadRequest(body)
		if err != nil {
			t.Error(err)
		}
		frames = append(frames, f.answer(h, 0, &smbwire.ReadResponse{Data: []byte{byte(q.Offset)}}))
		if len(frames) < calls {
			return
		}
		f.write(frames[3])
		b := make([]byte, smbwire.FrameHeaderSize)
		for i, one := range [][]byte{frames[2], frames[0], frames[1]} {
			start := len(b)
			if b = append(b, one[smbwire.FrameHeaderSize:]...); i < 2 {
				b = smbwire.EndElement(b, start)
			}
			f.signer.Sign(b[start:])
		}
		smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
		f.write(b)
	}), nil)
	file := open(t, tree, readWrite("f"))
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			got := make([]byte, 1)
			if _, err := file.ReadAt(t.Context(), got, int64(10+i)); err != nil || got[0] != byte(10+i) {
				t.Error(i, got, err)
			}
		})
	}
	wg.Wait()
}

// A call to a server that does not read returns soon after the end of its context.
//
// Source: [MS-SMB2 3.2.6.1]
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		_, tree := fakeMount(t, onCommand(smbwire.CommandEcho, func(*fake, smbwire.Header, []byte) { <-stuck }), nil)
		defer close(stuck)
		file := open(t, tree, readWrite("f"))
		go func() { _ = echo(t.Context(), tree.s) }()
		synctest.Wait()
		var wg sync.WaitGroup
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		wg.Go(func() {
			if _, err := file.WriteAt(ctx, make([]byte, 100), 0); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if took := time.Since(start); took != 3*time.Second+cancelGrace {
				t.Error("the one that is stuck took", took)
			}
		})
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := file.WriteAt(short, make([]byte, 100), 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("the one behind it, after %v: %v", time.Since(start), err)
		}
		wg.Wait()
	})
}

// A late response does not write to the memory of its caller.
//
// Source: [MS-SMB2 3.2.5.11]
func TestLateResponseLeavesCallersMemoryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		_, tree := fakeMount(t, onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) {
			<-release
			f.reply(h, ntstatus.Success, &smbwire.ReadResponse{Data: bytes.Repeat([]byte{1}, 100)})
		}), nil)
		file := open(t, tree, readWrite("f"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := make([]byte, 100)
		if n, err := file.ReadAt(ctx, p, 0); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(n, err)
		}
		close(release)
		synctest.Wait()
		if !bytes.Equal(p, make([]byte, 100)) {
			t.Error("the buffer was written to")
		}
		if err := echo(t.Context(), tree.s); err != nil {
			t.Error(err)
		}
	})
}

// A response that arrives while its request is being abandoned is a late one.
//
// Source: [MS-SMB2 3.2.5.7]
func TestResponseDuringAbandonIsTreatedAsLate(t *testing.T) {
	_, tree := fakeMount(t, nil, nil)
	c := tree.s.conn
	late := make(chan smbwire.Command, 1)
	list, err := c.send(t.Context(), request{
		command: smbwire.CommandEcho, body: smbwire.Empty{},
		late: func(_ context.Context, r *response) { late <- r.Command },
	})
	if err != nil {
		t.Fatal(err)
	}
	for len(list[0].done) == 0 { // no call waits for it
		runtime.Gosched()
	}
	c.abandon(list[0], true)
	select {
	case got := <-late:
		if got != smbwire.CommandEcho {
			t.Error(got)
		}
	case <-time.After(time.Minute):
		t.Error("the late handler was not called")
	}
}
