package iwarp

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lwio/rdma"
)

func testFile(t testing.TB, data []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	return f
}

// A file is written in all configurations, in several frames and batches, with answers to
// reads between them.
//
// Source: [OP-92i]
func TestFileArrivesInAllConfigurations(t *testing.T) {
	data := make([]byte, 1<<20+5)
	fillRandom(data, 3)
	f := testFile(t, data)
	for name, cfg := range transferConfigs {
		client, server := connect(t, cfg, cfg, shape{depth: 16, sge: 4, buf: 2 << 20, limits: rdma.ReadLimits{Inbound: 4, Outbound: 4}})
		src, err := client.a.RegisterFile(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		client.post(
			rdma.Request{Op: rdma.OpWrite, ID: 1, File: src, FileOffset: 1, FileLength: 1<<20 + 100, Remote: server.at(9)},
			rdma.Request{Op: rdma.OpRead, ID: 2, SGL: client.sgl(0, 1<<20+100), Remote: server.at(9)},
		)
		if r := client.want(rdma.OpWrite, 1, rdma.StatusSuccess); r.Bytes != 1<<20+4 {
			t.Errorf("%s: %d bytes", name, r.Bytes)
		}
		client.want(rdma.OpRead, 2, rdma.StatusSuccess)
		if !bytes.Equal(client.buf[:1<<20+100], append(bytes.Clone(data[1:]), make([]byte, 96)...)) {
			t.Errorf("%s: the file arrives changed", name)
		}
	}
}

// A request whose source is closed fails, and the connection ends with a Terminate.
//
// Source: [OP-92i], [RFC 5040 §4.8]
func TestFileCloseFailsItsRequests(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	src, err := e.a.RegisterFile(t.Context(), testFile(t, make([]byte, 100)))
	if err != nil {
		t.Fatal(err)
	}
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	qp.Initiator.Sending = true
	qp.Initiator.Unlock()
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 1, File: src, FileLength: 100})
	src.Close()
	qp.c.tx.pump()
	if got := p.wantTerminate(); !bytes.Equal(got, []byte{0, 0, 0, 0}) {
		t.Errorf("Terminate %x", got)
	}
	e.want(rdma.OpWrite, 1, rdma.StatusAccessViolation)
}

// A goroutine that must not wait for a disk leaves the file to the writing goroutine.
//
// Source: [OP-92i]
func TestUncachedFileIsReadByTheWriter(t *testing.T) {
	data := []byte("0123456789")
	client, server := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: 4096})
	src, err := client.a.RegisterFile(t.Context(), testFile(t, data))
	if err != nil {
		t.Fatal(err)
	}
	tx := &client.qp.(*queuePair).c.tx
	tx.framer.files.fn = func(uintptr) { tx.framer.files.n, tx.framer.files.err = 0, errNotCached }
	server.recv(2, 100, 4)
	client.post(rdma.Request{Op: rdma.OpWrite, ID: 1, File: src, FileLength: 10, Remote: server.at(0)}, rdma.Request{Op: rdma.OpSend, ID: 2})
	if r := client.want(rdma.OpWrite, 1, rdma.StatusSuccess); r.Bytes != 10 {
		t.Errorf("%+v", r)
	}
	client.want(rdma.OpSend, 2, rdma.StatusSuccess)
	server.want(rdma.OpReceive, 2, rdma.StatusSuccess)
	if !bytes.Equal(server.buf[:10], data) {
		t.Errorf("%q", server.buf[:10])
	}
	qp := client.qp.(*queuePair)
	qp.probe.fn = func(uintptr) { qp.probe.n, qp.probe.err = 0, errNotCached }
	if err := os.Truncate(src.File().Name(), 2<<20); err != nil { // a hole has no cached pages
		t.Fatal(err)
	}
	n, err := qp.Post([]rdma.Request{{
		Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached, File: src, FileOffset: 1 << 20, FileLength: 10, Remote: server.at(0),
	}})
	if n != 0 || rdma.StatusOf(err) != rdma.StatusDeviceBusy || qp.Initiator.Requests.Len() != 0 {
		t.Error(n, err)
	}
}

// A file that ends in the middle of a write and then grows again counts as ended for the
// request. The rest of the data is zero and does not count.
//
// Source: [OP-92i]
func TestShrunkFileEndsWithZeros(t *testing.T) { testFileShrinks(t, nil) }

// A file that becomes unreadable counts as ended for the request too. The connection
// continues.
func TestUnreadableFileEndsWithZeros(t *testing.T) { testFileShrinks(t, syscall.EIO) }

func testFileShrinks(t *testing.T, end error) {
	const size = 200_000
	client, server := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: size})
	src, err := client.a.RegisterFile(t.Context(), testFile(t, bytes.Repeat([]byte{7}, size)))
	if err != nil {
		t.Fatal(err)
	}
	r := &client.qp.(*queuePair).c.tx.framer.files // reads as if all pages stayed in memory
	calls := 0
	r.fn = func(uintptr) {
		if calls++; calls == 2 { // the file is short now
			r.n, r.err = 0, end
			return
		}
		r.n, r.err = copy(r.buf, bytes.Repeat([]byte{7}, 1000)), nil
	}
	server.recv(2, 0, 0)
	client.post(rdma.Request{Op: rdma.OpWrite, ID: 1, File: src, FileLength: size, Remote: server.at(0)}, rdma.Request{Op: rdma.OpSend, ID: 2})
	if r := client.want(rdma.OpWrite, 1, rdma.StatusSuccess); r.Bytes != 1000 {
		t.Errorf("%+v", r)
	}
	client.want(rdma.OpSend, 2, rdma.StatusSuccess)
	server.want(rdma.OpReceive, 2, rdma.StatusSuccess)
	if bytes.IndexByte(server.buf, 0) != 1000 || bytes.IndexByte(server.buf[1000:], 7) >= 0 {
		t.Error("bytes after the end")
	}
}
