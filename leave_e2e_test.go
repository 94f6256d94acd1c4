package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/internal/smb/smbclient"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// TestLeaveBeforeThePost ends the context of a write whose message waits until another
// one's is posted: the connection outlives that, though the memory that the message names
// is the caller's again.
//
// Source: [OP-113]
func TestLeaveBeforeThePost(t *testing.T) {
	for i, p := range lwio.DefaultProviders() {
		for name, leave := range map[string]func(ctx context.Context, c *lwio.Client, f *lwio.File, p []byte) error{
			"call": func(ctx context.Context, _ *lwio.Client, f *lwio.File, p []byte) error {
				_, err := f.WriteAtContext(ctx, p, 0)
				return err
			},
			"batch": func(ctx context.Context, c *lwio.Client, f *lwio.File, p []byte) error {
				b := c.NewBatch(1)
				if err := b.WriteAt(f, p, 0, 0); err != nil {
					return err
				}
				_, err := b.Wait(ctx, 1)
				return errors.Join(err, b.Close())
			},
		} {
			t.Run(p.Name()+"/"+name, func(t *testing.T) {
				const size = 30_000
				held, release := make(chan struct{}), make(chan struct{})
				hold := make(chan bool, 1)
				client := fault.Wrap(lwio.DefaultProviders()[i], &fault.Config{Fault: func(fault.Attempt) fault.Action {
					select {
					case <-hold:
						close(held)
						<-release
					default:
					}
					return fault.Pass()
				}})
				var mute atomic.Bool // the server answers only after answer
				answer := make(chan struct{})
				server := fault.Wrap(lwio.DefaultProviders()[i], &fault.Config{Fault: func(fault.Attempt) fault.Action {
					if mute.Load() {
						<-answer
					}
					return fault.Pass()
				}})
				s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{server}})
				c := s.Client(&lwio.Config{Providers: []rdma.Provider{client}, RequireRDMA: true, Completion: lwio.Interrupt})
				data := random(size, 1)
				put(t, c, "f", data)
				f, err := c.OpenFile(t.Context(), "f", 2, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.ReadAt(make([]byte, 1), 0); err != nil { // registers the file
					t.Fatal(err)
				}
				mute.Store(true)
				first, second := make(chan error, 1), make(chan error, 1)
				hold <- true
				go func() {
					p := make([]byte, size)
					_, err := f.ReadAt(p, 0)
					if err == nil && !bytes.Equal(p, data) {
						err = errors.New("wrong bytes")
					}
					first <- err
				}()
				<-held
				before := c.Stats().InFlight
				ctx, cancel := context.WithCancel(t.Context())
				go func() { second <- leave(ctx, c, f, bytes.Clone(data)) }()
				for c.Stats().InFlight == before {
					time.Sleep(time.Millisecond)
				}
				cancel()
				select {
				case err := <-second: // it may wait for the post of the first
					second <- err
				case <-time.After(20 * time.Millisecond):
				}
				close(release)
				if err := <-second; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				close(answer)
				if err := <-first; err != nil {
					t.Error(err)
				}
				if err := f.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				if st := c.Stats(); st.Lost != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// A call in flight while the client is closed ends with net.ErrClosed, over every transport,
// and not with fs.ErrClosed or with an error about a forged answer.
func TestCloseWithReadsInFlight(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		put(t, c, "f", random(64<<10, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		const readers = 16
		var begun, ended sync.WaitGroup
		begun.Add(readers)
		for range readers {
			ended.Go(func() {
				p := make([]byte, 16<<10)
				_, err := f.ReadAt(p, 0)
				for begun.Done(); err == nil; {
					_, err = f.ReadAt(p, 0)
				}
				if !errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed) || errors.Is(err, smbclient.ErrSignature) {
					t.Error(err)
				}
			})
		}
		begun.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		ended.Wait()
	})
}
