package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lwio/internal/account"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// The byte of flags of a step of FuzzConnection.
const (
	fuzzMutations = 3   // the number of changed bytes
	fuzzPolling   = 4   // the request is completed by a status block
	fuzzAnswered  = 8   // the client waits for an answer
	fuzzHint      = 16  // the request has a large hint
	fuzzClosed    = 32  // SMB closes the file first
	fuzzTiny      = 64  // the request is for a few bytes
	fuzzUnsealed  = 128 // on a sealed connection the message is in clear
)

// liveConnections are the kinds of connections.
var liveConnections = []struct {
	name, on string
	auth     authOptions
}{{"iwarp", "iwarp", authOptions{}}, {"sealed", "iwarp", sealedAuth}, {"shm", "shm", authOptions{}}}

// FuzzConnection sends sequences of messages over an authenticated connection of a real provider. The
// first byte selects the provider and the end of the connection. Each step is a kind of message, a
// byte of flags, and the position and the value of each changed byte. After the connection and
// its session the server holds nothing for the client: no connection, no credit, no memory, no
// registration, no open. The next input uses the same server.
//
// Source: [OP-27] [OP-63] [OP-94f]
func FuzzConnection(f *testing.F) {
	for first := range byte(12) {
		f.Add([]byte{first})
		f.Add([]byte{first, 0, 8, 1, 8, 2, 0, 3, 0, 6, 8, 7, 8, 5, 8, 0, 8})
		f.Add([]byte{first, 4, 8, 0, 4, 1, 20, 2, 4, 8, 0, 0, 32, 1, 0, 5, 0})
		f.Add([]byte{first, 10, 0, 10, 0, 7, 0, 10, 16, 6, 16, 0, 0, 9, 0})
		f.Add([]byte{first, 0, 9, 8, 1, 1, 65, 40, 7, 0, 129, 0, 0})
	}
	envs := make(map[string]*env)
	for on := range providers {
		envs[on] = newEnv(f, envConfig{on: on, limits: Limits{Credits: 8, MaxCredits: 16, Workers: 2, ReadBufferBytes: 1 << 20}})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 400 {
			return
		}
		kind := liveConnections[int(in[0])%len(liveConnections)]
		v := envs[kind.on]
		v.in(t)
		v.sess = newFakeSession(1)
		l := &liveClient{file: v.file("f", content(100_000))}
		n := v.negotiate(v.sess)
		l.rawClient = v.connect(n)
		l.auth(n, kind.auth)
		l.fid = l.register(l.file)
		l.play(in[1:])
		switch in[0] / byte(len(liveConnections)) % 3 {
		case 0:
			l.connector.Close()
		case 1:
			v.sess.end()
		case 2:
			l.file.Close()
		}
		l.a.Close()
		v.sess.end()
		l.file.Close()
		for end := time.Now().Add(patience); v.held() != ""; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the server still holds %s", v.held())
			}
		}
		if s := v.fs.Stats(); s.Opens != 0 || s.Locks != 0 || s.WaitingLocks != 0 || s.Stalled != 0 {
			t.Fatalf("left: %+v", s)
		}
	})
}

// held names the resources that the server holds for clients; "" for none.
func (v *env) held() string {
	e := v.e
	s := e.count.snapshot()
	switch {
	case !v.deserted():
		return "connections"
	case s.Connections != 0 || e.count.authenticated.Load() != 0:
		return "connections that are counted"
	case s.Files != 0:
		return "registered files"
	}
	for name, u := range map[string]account.Usage{
		"connections of users": e.conns.users.Usage(), "memory of credits": e.credits.sum.Usage(),
		"memory of reads": e.readUsage(), "registrations": e.registered.Usage(),
	} {
		if u.Held != 0 || u.Most != 0 {
			return fmt.Sprintf("%s: %+v", name, u)
		}
	}
	for _, f := range e.fabrics {
		f.buffers.mu.Lock()
		files, users := len(f.buffers.usages), len(f.buffers.users)
		f.buffers.mu.Unlock()
		if files != 0 || users != 0 {
			return fmt.Sprintf("%d files and %d users of the buffer pool", files, users)
		}
	}
	return ""
}

// liveClient is a client of FuzzConnection with a registered file.
type liveClient struct {
	*rawClient
	file *vfs.Open
	fid  uint16
	sent int // messages without an answer, at most
}

// play sends the steps of an input, until the connection ends.
func (l *liveClient) play(in []byte) {
	for len(in) >= 2 && l.lost == nil {
		kind, flags := in[0], in[1]
		in = in[2:]
		if flags&fuzzClosed != 0 {
			go l.file.Close() // waits for I/O in flight
		}
		msg := l.message(kind, flags)
		for range flags & fuzzMutations {
			if len(in) < 2 {
				break
			}
			msg[int(in[0])%len(msg)] ^= in[1]
			in = in[2:]
		}
		if sealer := l.sealer; flags&fuzzUnsealed != 0 && sealer != nil {
			l.sealer = nil
			l.raw(msg)
			l.sealer = sealer
		} else {
			l.raw(msg)
		}
		l.sent++
		if flags&fuzzAnswered != 0 || l.sent >= l.credits {
			l.drain(10 * time.Millisecond)
		}
		l.drain(0)
	}
	l.drain(2 * time.Millisecond)
}

// message makes a message of a kind, in sequence.
func (l *liveClient) message(kind, flags byte) []byte {
	length := uint32(20_000)
	if flags&fuzzTiny != 0 {
		length = 7
	}
	region := wire.RDMARegion{DataVa: l.in.RemoteAddr().Addr + 8, DataMh: uint32(l.in.RemoteAddr().Token), Length: length}
	var h wire.Header
	var body []byte
	switch kind % 11 {
	case 0:
		h = wire.NewRead(l.fid, 10, region)
	case 1:
		body = make([]byte, min(length, 4000))
		h = wire.NewWrite(l.fid, 100, uint32(len(body)))
	case 2:
		body = region.AppendTo(region.AppendTo(nil))
		h = wire.NewVecRead(l.fid, 0, 2*length, 2, 4096)
	case 3:
		body = make([]byte, 512)
		h = wire.NewCollapse(l.fid, 0, 8*512, 512)
	case 4:
		h, body = l.registerMessage(l.file)
	case 5:
		h = wire.NewClose(l.fid)
	case 6:
		h = wire.NewCredit(1)
	case 7:
		h = wire.NewCancel(l.fid)
	case 8:
		h = wire.NewInterrupt(int(byte(l.sequence)))
	case 9:
		h, body = wire.NewAuth(67, region), make([]byte, 67)
	case 10:
		region.Length = 60_000
		h = wire.NewRead(l.fid, 0, region)
	}
	l.cookie++
	if flags&fuzzPolling != 0 {
		h = by(h, completion{Polling: true, IosVa: l.in.RemoteAddr().Addr, IosMh: uint32(l.in.RemoteAddr().Token)})
	} else {
		h = by(h, completion{Cookie: l.cookie})
	}
	if flags&fuzzHint != 0 {
		h.SetPending(200)
	}
	h.Marker, h.Sequence = wire.Marker, l.sequence
	l.sequence++
	return append(h.AppendTo(nil), body...)
}

// drain takes the completions that are there. If there is none, it waits up to a time for one.
func (l *liveClient) drain(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var rs [1]rdma.Result
	for taken := false; l.lost == nil; {
		n, err := l.cq.Poll(rs[:])
		switch {
		case err != nil:
			l.t.Fatal(fmt.Errorf("poll: %w", err))
		case n == 1:
			taken = true
			l.take(&rs[0])
		case taken || l.cq.Wait(ctx, rdma.NotifyAny) != nil:
			l.sent = max(l.sent-len(l.got), 0)
			l.got = nil
			return
		}
	}
}
