package server

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
)

// sourceCloses delays the closing of file sources until the channel is closed, and counts it.
type sourceCloses struct{ begun, until chan struct{} }

func (s sourceCloses) Event(e fault.Event) {
	if c, is := e.(fault.Controlled); is && c.Op == "close file source" {
		s.begun <- struct{}{}
		<-s.until
	}
}

// A file source whose Close blocks delays no request of its connection: not the answer to the CLOSE of
// its file, and not I/O on other files. The answer to I/O in flight, the CLOSE, or SMB drops the
// last reference.
//
// Source: [OP-94d] [OP-58b]
func TestBlockedCloseOfSourceHoldsUpNoRequest(t *testing.T) {
	for name, test := range map[string]struct{ busy, smb bool }{
		"last reference of I/O": {busy: true}, "CLOSE": {}, "SMB close": {smb: true}, "SMB close during I/O": {busy: true, smb: true},
	} {
		t.Run(name, func(t *testing.T) {
			trace := sourceCloses{begun: make(chan struct{}, 2), until: make(chan struct{})}
			b := newGate(t)
			b.real = true
			v := newEnv(t, envConfig{on: "shm", backend: b, provider: fault.Wrap(providers["shm"](), &fault.Config{Tracer: trace})})
			t.Cleanup(func() { close(trace.until) })
			b.make("a", content(4096))
			b.make("other", []byte("other"))
			c := v.client()
			o := v.open("a", vfs.ReadData|vfs.WriteData, 0, v.sess)
			fid, other := c.register(o), c.register(v.open("other", vfs.ReadData|vfs.WriteData, 0, v.sess))
			cookies := make(map[uint64]bool)
			if test.busy {
				b.shut()
				cookies[c.send(writeHeader(fid, 0, 4), []byte("data"))] = true
				eventually(t, "a write is in progress", func() bool { return b.waiting() == 1 })
			}
			if test.smb {
				go o.Close()
				eventually(t, "the file is revoked", func() bool { return v.e.count.files.Load() == 1 })
			} else {
				cookies[c.send(controlHeader(wire.OpClose, fid), nil)] = true
				eventually(t, "the file is closed", func() bool { return v.e.count.closes.Load() == 1 })
			}
			b.open()
			<-trace.begun
			for range len(cookies) {
				if s := c.reply(); !cookies[s.Cookie] || s.Status != 0 {
					t.Errorf("answer %+v", s)
				}
			}
			c.want(ntstatus.Success, 5, c.readHeader(other, 0, 100, 0), nil)
			c.want(ntstatus.Success, 5, writeHeader(other, 0, 5), []byte("OTHER"))
			c.want(ntstatus.Success, 0, controlHeader(wire.OpClose, other), nil)
		})
	}
}
