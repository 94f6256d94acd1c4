package smbclient

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// lasting makes a fake that has persistent handles on its share.
func lasting(f *fake) {
	f.share.Capabilities = smbwire.ShareCapContinuousAvailability
	f.negotiate = func(r *smbwire.NegotiateResponse) { r.Capabilities |= smbwire.CapPersistentHandles }
}

// A share has persistent handles if server and share say so.
//
// Source: [MS-SMB2 2.2.10]
func TestPersistentNeedsServerAndShare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake)
		want   bool
	}{
		"both":   {lasting, true},
		"server": {func(f *fake) { lasting(f); f.share.Capabilities = 0 }, false},
		"share":  {func(f *fake) { lasting(f); f.negotiate = nil }, false},
		"dialect": {func(f *fake) {
			lasting(f)
			f.dialect, f.negotiate = smbwire.Dialect210, nil // the client compares the capabilities
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, c.change, nil)
			if tree.Persistent() != c.want {
				t.Errorf("persistent handles: %v", tree.Persistent())
			}
			if f.asked.Capabilities&smbwire.CapPersistentHandles == 0 != (f.dialect == smbwire.Dialect210) {
				t.Errorf("the client asks with %#x", f.asked.Capabilities)
			}
		})
	}
}

// The contexts and the flag of a CREATE for an open that outlives its connection, of its repetition, and
// of its reclaim.
//
// Source: [MS-SMB2 2.2.13.2.11], [MS-SMB2 2.2.13.2.12], [MS-SMB2 2.2.14.2.12]
func TestCreateNamesPersistentOpens(t *testing.T) {
	type seen struct {
		Flags     smbwire.Flags
		Request   *smbwire.DurableRequest
		Reconnect *smbwire.DurableReconnect
	}
	var got []seen
	answer := smbwire.DurableResponse{Timeout: 1500, Flags: smbwire.DurablePersistent}
	_, tree := fakeMount(t, func(f *fake) {
		lasting(f)
		onCommand(smbwire.CommandCreate, func(f *fake, h smbwire.Header, body []byte) {
			q, err := smbwire.DecodeCreateRequest(bytes.Clone(body))
			if err != nil {
				t.Error(err)
			}
			s := seen{Flags: h.Flags & smbwire.FlagReplay}
			for _, x := range q.Contexts {
				switch x.Name {
				case smbwire.CreateContextDurableV2:
					d, err := smbwire.DecodeDurableRequest(x.Data)
					if s.Request = &d; err != nil {
						t.Error(err)
					}
				case smbwire.CreateContextDurableV2Connect:
					d, err := smbwire.DecodeDurableReconnect(x.Data)
					if s.Reconnect = &d; err != nil {
						t.Error(err)
					}
				}
			}
			got = append(got, s)
			r := &smbwire.CreateResponse{FileID: fakeFile}
			if s.Request != nil {
				r.Contexts = []smbwire.CreateContext{{Name: smbwire.CreateContextDurableV2, Data: answer.AppendTo(nil)}}
			}
			f.reply(h, ntstatus.Success, r)
		})(f)
	}, nil)
	p := &Persistence{GUID: [16]byte{1, 2}, Timeout: 90 * time.Second}
	q := readWrite("f")
	var granted []time.Duration
	for _, change := range []func(){
		func() {},
		func() { q.Persistent = p },
		func() { q.Replay = true },
		func() { q.Replay, q.Reclaim = false, &smbwire.FileID{Persistent: 7, Volatile: 8} },
		func() { q.Reclaim, answer.Flags = nil, 0 },
	} {
		change()
		f, err := tree.Create(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if f.ID() != fakeFile {
			t.Errorf("file id %+v", f.ID())
		}
		granted = append(granted, f.Granted())
	}
	asked := &smbwire.DurableRequest{Timeout: 90_000, Flags: smbwire.DurablePersistent, CreateGUID: p.GUID}
	again := &smbwire.DurableReconnect{FileID: smbwire.FileID{Persistent: 7, Volatile: 8}, CreateGUID: p.GUID, Flags: smbwire.DurablePersistent}
	want := []seen{{}, {Request: asked}, {Flags: smbwire.FlagReplay, Request: asked}, {Reconnect: again}, {Request: asked}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]time.Duration{0, 1500 * time.Millisecond, 1500 * time.Millisecond, 0, 0}, granted); d != "" {
		t.Error(d)
	}
}

// A session that replaces a lost one names it, and its client.
//
// Source: [MS-SMB2 3.2.4.2.3]
func TestSessionNamesItsPredecessor(t *testing.T) {
	var previous []uint64
	f, client := newFake(t, func(f *fake) {
		f.on = func(_ *fake, h smbwire.Header, body []byte) bool {
			if h.Command == smbwire.CommandSessionSetup {
				q, err := smbwire.DecodeSessionSetupRequest(bytes.Clone(body))
				if err != nil {
					t.Error(err)
				}
				previous = append(previous, q.PreviousSessionID)
			}
			return false
		}
	})
	s, err := f.logon(client, func(c *Config) { c.PreviousSession, c.ClientGUID = 77, [16]byte{9} })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := cmp.Diff([]uint64{77, 77}, previous); d != "" || f.asked.ClientGUID != [16]byte{9} || s.ID() != fakeSession {
		t.Errorf("client %x, session %#x; %s", f.asked.ClientGUID, s.ID(), d)
	}
}

// A silent server is noticed in time, by an ECHO, whenever its last byte came. A server that answers ECHO, or that sends
// anything else, is not silent.
//
// Source: [MS-SMB2 3.2.4.22]
func TestKeepAliveNoticesSilentServer(t *testing.T) {
	const limit = 9 * time.Second
	for last := time.Duration(0); last < limit; last += limit / 24 {
		synctest.Test(t, func(t *testing.T) {
			var silent atomic.Bool
			f, tree := fakeMount(t, func(f *fake) {
				f.on = func(_ *fake, _ smbwire.Header, _ []byte) bool { return silent.Load() }
			}, func(c *Config) { c.KeepAlive = limit })
			time.Sleep(20*limit + last)
			if err := echo(t.Context(), tree.s); err != nil {
				t.Fatal(err)
			}
			if n, err := f.count(smbwire.CommandEcho), tree.s.Err(); n < 20 || err != nil {
				t.Fatalf("%d ECHO: %v", n, err)
			}
			silent.Store(true)
			start := time.Now()
			<-tree.s.Done()
			if took := time.Since(start); took > limit || !errors.Is(tree.s.Err(), net.ErrClosed) || !errors.Is(tree.s.Err(), errSilent) {
				t.Errorf("after %v: %v", took, tree.s.Err())
			}
		})
	}
}

// Without a credit no ECHO is sent; the requests in flight stand for it.
func TestKeepAliveNeedsNoCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tree := fakeMount(t, func(f *fake) {
			f.credits = func(h *smbwire.Header) uint16 { return min(h.Credits, 1) }
			f.on = func(_ *fake, h smbwire.Header, _ []byte) bool { return h.Command == smbwire.CommandFlush }
		}, func(c *Config) { c.KeepAlive = 3 * time.Second })
		f := open(t, tree, readWrite("f"))
		if err := f.Flush(t.Context()); !errors.Is(err, errSilent) {
			t.Error(err)
		}
	})
}

// A server that does not take a message as fast as KeepAlive is not silent: no ECHO can be sent meanwhile.
func TestKeepAliveWaitsForLongWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		_, tree := fakeMount(t, onCommand(smbwire.CommandFlush, func(f *fake, h smbwire.Header, _ []byte) {
			<-goOn // it reads no other message meanwhile
			f.reply(h, ntstatus.Success, &smbwire.Empty{})
		}), func(c *Config) { c.KeepAlive, c.Timeout = 3*time.Second, time.Hour })
		f := open(t, tree, readWrite("f"))
		done := make(chan error, 2)
		for range cap(done) {
			go func() { done <- f.Flush(t.Context()) }()
		}
		time.Sleep(time.Minute)
		if err := tree.s.Err(); err != nil {
			t.Error(err)
		}
		close(goOn)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A server that answers ECHO is alive while slow requests hold all credits but one.
func TestKeepAliveHasCreditOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []smbwire.Header
		f, tree := fakeMount(t, func(f *fake) {
			f.credits = func(h *smbwire.Header) uint16 { return h.Credits }
			f.on = func(_ *fake, h smbwire.Header, _ []byte) bool {
				if h.Command == smbwire.CommandFlush {
					held = append(held, h)
				}
				return h.Command == smbwire.CommandFlush
			}
		}, func(c *Config) { c.KeepAlive, c.Credits, c.Timeout = 3*time.Second, 20, time.Hour })
		file := open(t, tree, readWrite("f"))
		done := make(chan error, 30)
		for range cap(done) {
			go func() { done <- file.Flush(t.Context()) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := tree.s.Err(); err != nil || len(held) != 19 || f.count(smbwire.CommandEcho) == 0 {
			t.Errorf("%d requests, %d ECHO, %v", len(held), f.count(smbwire.CommandEcho), err)
		}
		for i := 0; i < cap(done); i++ {
			f.reply(held[i], ntstatus.Success, &smbwire.Empty{})
			synctest.Wait()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// After the loss of the connection a request that was sent has an unknown outcome; a later one was not
// sent.
func TestUnsentTellsRequestsThatWereNotSent(t *testing.T) {
	_, tree := fakeMount(t, onCommand(smbwire.CommandFlush, func(f *fake, _ smbwire.Header, _ []byte) { f.nc.Close() }), nil)
	f := open(t, tree, readWrite("f"))
	for i, unsent := range []bool{false, true} {
		if err := f.Flush(t.Context()); !errors.Is(err, net.ErrClosed) || Unsent(err) != unsent {
			t.Errorf("flush %d: %v, unsent %v", i, err, Unsent(err))
		}
	}
	_, err := f.WriteAt(t.Context(), make([]byte, 10), 0)
	if !Unsent(err) {
		t.Errorf("write: %v", err)
	}
	if err := tree.Remove(t.Context(), "f"); !Unsent(err) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("remove: %v", err)
	}
}

// A write of several requests has an unknown outcome if some of them were sent.
func TestUnsentRestOfWriteIsUnknown(t *testing.T) {
	writes := 0
	_, tree := fakeMount(t, onCommand(smbwire.CommandWrite, func(f *fake, _ smbwire.Header, _ []byte) {
		if writes++; writes == 2 {
			f.nc.Close()
		}
	}), nil)
	f := open(t, tree, readWrite("f"))
	n, err := f.WriteAt(t.Context(), make([]byte, 5<<20), 0)
	if n != 0 || !errors.Is(err, net.ErrClosed) || Unsent(err) {
		t.Errorf("%d bytes, %v, unsent %v", n, err, Unsent(err))
	}
}

// The sequence of a LockCall is sent, and Late has the outcome of a call that was given up.
//
// Source: [MS-SMB2 3.2.4.19]
func TestLockCallHasSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sequences []uint32
		var waiting []smbwire.Header
		f, tree := fakeMount(t, func(f *fake) {
			f.on = func(f *fake, h smbwire.Header, body []byte) bool {
				switch h.Command {
				case smbwire.CommandLock:
					q, err := smbwire.DecodeLockRequest(bytes.Clone(body))
					if err != nil {
						t.Error(err)
					}
					sequences = append(sequences, q.Sequence)
					h.Flags |= smbwire.FlagAsync
					h.AsyncID = h.MessageID
					f.reply(h, ntstatus.Pending, &smbwire.ErrorResponse{})
					h.Credits = 0
					waiting = append(waiting, h)
					return true
				case smbwire.CommandCancel:
					return true
				}
				return false
			}
		}, nil)
		file := open(t, tree, readWrite("f"))
		outcome := make(chan bool, 2)
		for i, status := range []ntstatus.Status{ntstatus.Success, ntstatus.Cancelled} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := file.DoLock(ctx, LockCall{Off: 1, Len: 2, Wait: true, Sequence: smbwire.LockSequence(3, uint8(i)),
				Late: func(_ context.Context, done bool) { outcome <- done }})
			cancel()
			if !Undecided(err) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, undecided %v", err, Undecided(err))
			}
			if status == ntstatus.Success {
				f.reply(waiting[i], status, smbwire.Empty{})
			} else {
				f.reply(waiting[i], status, &smbwire.ErrorResponse{})
			}
			if done := <-outcome; done != (status == ntstatus.Success) {
				t.Errorf("%v: done %v", status, done)
			}
		}
		if d := cmp.Diff([]uint32{3 << 4, 3<<4 | 1}, sequences); d != "" {
			t.Error(d)
		}
	})
}
