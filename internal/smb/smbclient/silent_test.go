package smbclient

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// A read from a silent server ends with its context or the timeout; the session continues.
//
// Source: [MS-SMB2 3.2.6.1], [MS-SMB2 3.2.4.24]
func TestSilentServerTimesOutReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tree := fakeMount(t, onCommand(smbwire.CommandRead, func(*fake, smbwire.Header, []byte) {}), func(c *Config) { c.Timeout = time.Minute })
		file := open(t, tree, readWrite("f"))
		start := time.Now()
		_, err := file.ReadAt(t.Context(), make([]byte, 10), 0)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := file.ReadAt(ctx, make([]byte, 3<<20), 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		synctest.Wait()
		reads, cancels := f.count(smbwire.CommandRead), f.count(smbwire.CommandCancel)
		if reads != 4 || cancels != reads {
			t.Errorf("%d reads, %d cancelled", reads, cancels)
		}
		if err := echo(t.Context(), tree.s); err != nil {
			t.Error(err)
		}
	})
}

// The error of Close is a timeout if the server does not respond.
//
// Source: [MS-SMB2 3.2.4.5], [MS-SMB2 3.2.6.1]
func TestSilentServerTimesOutClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tree := fakeMount(t, onCommand(smbwire.CommandClose, func(*fake, smbwire.Header, []byte) {}), func(c *Config) { c.Timeout = time.Minute })
		for name, want := range map[string]string{
			"d/f": "no response in time: context deadline exceeded",
			"":    "no response in time: context deadline exceeded",
		} {
			file := open(t, tree, readWrite(name))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := file.Close(ctx)
			cancel()
			if err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want %s", err, want)
			}
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%v is no timeout", err)
			}
		}
	})
}

// Source: [MS-SMB2 3.2.4.2.2]
func TestSilentServerTimesOutLogon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := New(ctx, client, "silent", Config{Timeout: time.Hour})
		// The server does not read: the write has cancelGrace to finish.
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != 5*time.Second+cancelGrace {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// An interim response precedes a slow one; CANCEL then names the id of the interim response.
//
// Source: [MS-SMB2 3.2.5.1.5], [MS-SMB2 3.2.4.24]
func TestInterimResponsesAreFollowedByFinalOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []smbwire.Header
		f, tree := fakeMount(t, onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) {
			h.Flags |= smbwire.FlagAsync
			h.AsyncID = 0xABC
			held = append(held, h)
			f.reply(h, ntstatus.Pending, &smbwire.ErrorResponse{})
			if len(held) == 1 {
				f.credits = func(*smbwire.Header) uint16 { return 0 } // they have been granted
				f.reply(h, ntstatus.Success, &smbwire.ReadResponse{Data: []byte("later")})
				f.credits = func(h *smbwire.Header) uint16 { return h.Credits }
			}
		}), nil)
		file := open(t, tree, readWrite("f"))
		got := make([]byte, 5)
		if n, err := file.ReadAt(t.Context(), got, 0); err != nil || string(got[:n]) != "later" {
			t.Errorf("%q, %v", got[:n], err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := file.ReadAt(ctx, got, 0); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		all := f.requests()
		last := all[len(all)-1]
		if last.Command != smbwire.CommandCancel || last.Flags&smbwire.FlagAsync == 0 || last.AsyncID != 0xABC || last.MessageID != held[1].MessageID {
			t.Errorf("%+v", last)
		}
	})
}

// An open that succeeds after its CREATE was abandoned is closed.
//
// Source: [MS-SMB2 3.2.5.7]
func TestLateOpenIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f, tree := fakeMount(t, onCommand(smbwire.CommandCreate, func(f *fake, h smbwire.Header, _ []byte) {
			<-release
			f.reply(h, ntstatus.Success, &smbwire.CreateResponse{FileID: fakeFile})
		}), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tree.Create(ctx, readWrite("f")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		if f.count(smbwire.CommandClose) != 1 {
			t.Errorf("%v", f.requests())
		}
	})
}

// Large reads are split to the credits, down to one.
//
// Source: [MS-SMB2 3.2.4.1.2], [MS-SMB2 3.1.5.2]
func TestTransfersSplitToFewCredits(t *testing.T) {
	for _, most := range []uint16{1, 3, 40} {
		synctest.Test(t, func(t *testing.T) {
			data := random(2<<20 + 100)
			held := 1
			_, tree := fakeMount(t, func(f *fake) {
				f.credits = func(h *smbwire.Header) uint16 {
					charge := max(1, int(h.CreditCharge))
					n := min(int(h.Credits), max(0, int(most)-held+charge))
					held += n - charge
					return uint16(n)
				}
				f.on = func(f *fake, h smbwire.Header, body []byte) bool {
					if h.Command != smbwire.CommandRead {
						return false
					}
					q, err := smbwire.DecodeReadRequest(bytes.Clone(body))
					if err != nil || int(h.CreditCharge) != max(1, (int(q.Length)+smbwire.CreditUnit-1)/smbwire.CreditUnit) {
						t.Errorf("%d bytes for %d credits, %v", q.Length, h.CreditCharge, err)
					}
					f.reply(h, ntstatus.Success, &smbwire.ReadResponse{Data: data[q.Offset : q.Offset+uint64(q.Length)]})
					return true
				}
			}, nil)
			file := open(t, tree, readWrite("f"))
			got := make([]byte, len(data))
			if n, err := file.ReadAt(t.Context(), got, 0); n != len(data) || err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d credits: %d, %v", most, n, err)
			}
			_, err := file.ioctl(t.Context(), 1, nil, 1<<20)
			if enough := most >= 16; enough != !errors.Is(err, ErrProtocol) {
				t.Errorf("%d credits: %v", most, err)
			}
		})
	}
}

// A call fails at once if the server has taken the last credit away.
//
// Source: [MS-SMB2 3.3.1.2]
func TestNoCreditsIsAProtocolError(t *testing.T) {
	f, tree := fakeMount(t, nil, nil)
	c := tree.s.conn
	f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
		f.credits = func(*smbwire.Header) uint16 { return 0 }
		return false
	}
	c.credits.mu.Lock()
	c.credits.target, c.credits.held = 1, 1
	c.credits.mu.Unlock()
	if err := echo(t.Context(), tree.s); err != nil {
		t.Error(err)
	}
	if err := echo(t.Context(), tree.s); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}
