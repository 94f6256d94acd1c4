package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// Source: [NBD §Request types], [NBD §Error values], [NBD §Structured reply types]
func TestRepliesToEachRequest(t *testing.T) {
	const size = 0x100000
	data := func(off, n int) string { return fmt.Sprintf("%x", pattern(size)[off:][:n]) }
	writable, readOnly := start(t, rigConfig{}), start(t, rigConfig{readOnly: true})
	for _, c := range []struct {
		name, send string
		errno      uint32
		data       string
		readOnly   bool
	}{
		{"read", "25609513 0000 0000 C 0000000000000100 00000010", 0, data(0x100, 16), false},
		{"read, unaligned, to the end", "25609513 0000 0000 C 00000000000ffffd 00000003", 0, data(size-3, 3), false},
		{"read of a read-only export", "25609513 0000 0000 C 0000000000000100 00000010", 0, data(0x100, 16), true},
		{"read with FUA", "25609513 0001 0000 C 0000000000000000 00000004", 0, data(0, 4), false},
		{"read of nothing", "25609513 0000 0000 C 0000000000000000 00000000", 0, "", false},
		{"read beyond the end", "25609513 0000 0000 C 00000000000ffffd 00000004", 22, "", false},
		{"read far beyond the end", "25609513 0000 0000 C ffffffffffffffff 00000004", 22, "", false},
		{"read with NO_HOLE", "25609513 0002 0000 C 0000000000000000 00000004", 22, "", false},
		{"read with an unknown flag", "25609513 8000 0000 C 0000000000000000 00000004", 22, "", false},
		{"write", "25609513 0000 0001 C 0000000000000010 00000004 01020304", 0, "", false},
		{"write with FUA", "25609513 0001 0001 C 0000000000000020 00000004 01020304", 0, "", false},
		{"write of nothing", "25609513 0000 0001 C 0000000000000010 00000000", 0, "", false},
		{"write beyond the end", "25609513 0000 0001 C 00000000000ffffd 00000004 01020304", 28, "", false},
		{"write with DF", "25609513 0004 0001 C 0000000000000010 00000004 01020304", 22, "", false},
		{"write to a read-only export", "25609513 0000 0001 C 0000000000000010 00000004 01020304", 1, "", true},
		{"flush", "25609513 0000 0003 C 0000000000000000 00000000", 0, "", false},
		{"flush of a read-only export", "25609513 0000 0003 C 0000000000000000 00000000", 0, "", true},
		{"flush with a length", "25609513 0000 0003 C 0000000000000000 00000001", 22, "", false},
		{"trim", "25609513 0000 0004 C 0000000000000000 00000200", 22, "", false},
		{"cache", "25609513 0000 0005 C 0000000000000000 00100000", 0, "", false},
		{"cache beyond the end", "25609513 0000 0005 C 0000000000000001 00100000", 22, "", false},
		{"zeroes", "25609513 0002 0006 C 0000000000004031 00000fff", 0, "", false},
		{"zeroes with FUA", "25609513 0001 0006 C 0000000000006000 00002000", 0, "", false},
		{"zeroes of nothing", "25609513 0000 0006 C 0000000000002000 00000000", 0, "", false},
		{"fast zeroes", "25609513 0010 0006 C 0000000000000000 00001000", 95, "", false},
		{"zeroes beyond the end", "25609513 0000 0006 C 0000000000000001 00100000", 28, "", false},
		{"zeroes in a read-only export", "25609513 0000 0006 C 0000000000000000 00001000", 1, "", true},
		{"block status", "25609513 0000 0007 C 0000000000000000 00001000", 22, "", false},
		{"resize", "25609513 0000 0008 C 0000000000000000 00001000", 22, "", false},
		{"unknown command", "25609513 0000 00ff C 0000000000000000 00000000", 22, "", false},
	} {
		for _, structured := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, structured %v", c.name, structured), func(t *testing.T) {
				r := writable
				if c.readOnly {
					r = readOnly
				}
				p := r.transmit(t, structured)
				for _, cookie := range []string{"0102030405060708", "0000000000000000"} { // the connection goes on
					p.send(strings.Replace(c.send, " C ", " "+cookie+" ", 1))
					switch {
					case !structured:
						p.want(fmt.Sprintf("67446698 %08x %s %s", c.errno, cookie, c.data))
					case c.errno != 0:
						p.want(fmt.Sprintf("668e33ef 0001 8001 %s Length:4 %08x Text:2", cookie, c.errno))
						n := int(p.f["Text"][0])<<8 | int(p.f["Text"][1])
						if text := p.read(n); n == 0 || int(p.f["Length"][2])<<8|int(p.f["Length"][3]) != n+6 {
							t.Errorf("text %q, length %x", text, p.f["Length"])
						}
					case c.data != "":
						p.want(fmt.Sprintf("668e33ef 0001 0001 %s %08x Offset:8 %s", cookie, len(c.data)/2+8, c.data))
					default:
						p.want(fmt.Sprintf("668e33ef 0001 0000 %s 00000000", cookie))
					}
				}
			})
		}
	}
}

// Writes and zeroes are in the file, and nothing else changes.
func TestContentOfTheFile(t *testing.T) {
	r := start(t, rigConfig{})
	want := r.content(t)
	p := r.transmit(t, false)
	for _, c := range []struct {
		head string
		off  int
		data []byte
	}{
		{"25609513 0000 0001 0000000000000001 0000000000000011 00000003 010203", 0x11, []byte{1, 2, 3}},
		{"25609513 0001 0001 0000000000000002 00000000000ffffc 00000004 01020304", 0xffffc, []byte{1, 2, 3, 4}},
		{"25609513 0000 0006 0000000000000003 0000000000001001 00012345", 0x1001, make([]byte, 0x12345)},
		{"25609513 0003 0006 0000000000000004 0000000000080000 00000001", 0x80000, make([]byte, 1)},
	} {
		p.send(c.head)
		p.want("67446698 00000000 Cookie:8")
		copy(want[c.off:], c.data)
	}
	if got := r.content(t); !bytes.Equal(got, want) {
		t.Error("the file has other content")
	}
}

// DF is allowed with structured replies, in which a read has one chunk of data anyway.
func TestDontFragment(t *testing.T) {
	r := start(t, rigConfig{size: 3 << 20})
	p := r.transmit(t, true)
	p.send("25609513 0004 0000 0000000000000001 0000000000000000 00300000")
	p.want("668e33ef 0001 0001 0000000000000001 00300008 0000000000000000")
	if !bytes.Equal(p.read(3<<20), pattern(3<<20)) {
		t.Error("other data")
	}
	p = r.transmit(t, false)
	p.send("25609513 0004 0000 0000000000000001 0000000000000000 00000001")
	p.want("67446698 00000016 0000000000000001")
}

// The largest requests are served, larger ones are refused, and absurd ones end the connection.
//
// Source: [NBD §Block size constraints]
func TestLargestRequests(t *testing.T) {
	r := start(t, rigConfig{size: maxRequest + 4096})
	p := r.transmit(t, false)
	want := pattern(maxRequest)
	p.send("25609513 0000 0000 0000000000000001 0000000000000000 02000000")
	p.want("67446698 00000000 0000000000000001")
	if !bytes.Equal(p.read(maxRequest), want) {
		t.Error("other data")
	}
	p.send("25609513 0000 0000 0000000000000002 0000000000000000 02000001")
	p.want("67446698 00000016 0000000000000002")
	for i := range want {
		want[i] ^= 0xff
	}
	p.send("25609513 0000 0001 0000000000000003 0000000000001000 02000000")
	if _, err := p.Write(want); err != nil {
		t.Fatal(err)
	}
	p.want("67446698 00000000 0000000000000003")
	p.send("25609513 0000 0001 0000000000000004 0000000000000000 02000001")
	if _, err := p.Write(make([]byte, maxRequest+1)); err != nil {
		t.Fatal(err)
	}
	p.want("67446698 00000016 0000000000000004")
	if got := r.content(t); !bytes.Equal(got[4096:], want) {
		t.Error("the file has other content")
	}
	p.send("25609513 0000 0001 0000000000000005 0000000000000000 ffffffff")
	p.wantEnd()
}

// A request without its magic number, or a message that is cut anywhere, ends the connection; all of the requests
// before are answered.
func TestTransmissionCutAnywhere(t *testing.T) {
	r := start(t, rigConfig{})
	flush := "256095130000000300000000000000010000000000000000 00000000"
	whole := strings.ReplaceAll(flush+"2560951300000001 0000000000000002 0000000000000010 00000004 01020304"+flush, " ", "")
	for n := 0; n <= len(whole); n += 2 {
		p := r.transmit(t, false)
		p.send(whole[:n])
		if err := p.Conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answers := 0
		for _, end := range []int{28, 60, 88} {
			if n/2 >= end {
				answers++
			}
		}
		b, err := io.ReadAll(p)
		if err != nil || len(b) != 16*answers {
			t.Errorf("%d of %d bytes: %x, %v", n/2, len(whole)/2, b, err)
		}
	}
	p := r.transmit(t, false)
	p.send("25609514 0000 0003 0000000000000001 0000000000000000 00000000")
	p.wantEnd()
}

// The replies to all requests before CmdDisc arrive, and then the end.
//
// Source: [NBD §Request types]
func TestDisconnectWaitsForReplies(t *testing.T) {
	p := start(t, rigConfig{}).transmit(t, false)
	for i := range 100 {
		p.send(fmt.Sprintf("25609513 0000 0001 %016x %016x 00000004 01020304", i, 4*i))
	}
	p.send("25609513 0000 0002 0000000000000000 0000000000000000 00000000")
	seen := map[uint64]bool{}
	for range 100 {
		b := p.read(16)
		seen[binary.BigEndian.Uint64(b[8:])] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d different replies", len(seen))
	}
	p.wantEnd()
}

// gate is a backend whose reads at offset 0 wait, and whose writes there fail.
type gate struct {
	vfs.Backend
	open    chan struct{} // closed: reads go on
	arrived chan struct{} // a value for each read that waits
	fails   error         // of writes
}

func (g gate) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := g.Backend.Open(path, how)
	if err != nil {
		return nil, err
	}
	return gatedFile{h, g}, nil
}

type gatedFile struct {
	vfs.Handle
	g gate
}

func (f gatedFile) File() *os.File { return nil }

func (f gatedFile) ReadCached(p []byte, off int64) (int, bool, error) {
	if off == 0 {
		return 0, false, nil
	}
	return f.Handle.ReadCached(p, off)
}

func (f gatedFile) ReadAt(p []byte, off int64) (int, error) {
	if off == 0 {
		f.g.arrived <- struct{}{}
		<-f.g.open
	}
	return f.Handle.ReadAt(p, off)
}

func (f gatedFile) WriteAt(p []byte, off int64, durable bool) (int, error) {
	if off == 0 && f.g.fails != nil {
		return 0, f.g.fails
	}
	return f.Handle.WriteAt(p, off, durable)
}

// gated is a rig with a gate.
func gated(t *testing.T, c rigConfig, fails error) (*rig, gate) {
	t.Helper()
	c.share.Dir = t.TempDir()
	disk, err := posix.OpenDir(c.share.Dir)
	if err != nil {
		t.Fatal(err)
	}
	g := gate{disk, make(chan struct{}), make(chan struct{}, 1000), fails}
	c.share.Backend = g
	return start(t, c), g
}

// Requests behind slow ones are answered before them: more slow ones than workers, and with TLS.
func TestSlowRequestsDelayNoOthers(t *testing.T) {
	server, client := certificates(t)
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			var c rigConfig
			if secure {
				c.server.TLS = server
			}
			r, g := gated(t, c, nil)
			p := r.connect(t).greet()
			if secure {
				p.secure(client)
			}
			p.choose(false)
			for i := range maxWorkers - 1 {
				p.send(fmt.Sprintf("25609513 0000 0000 %016x 0000000000000000 00000004", i))
				<-g.arrived
				p.send("25609513 0000 0000 ffffffffffffffff 0000000000000100 00000004")
				p.want("67446698 00000000 ffffffffffffffff Data:4")
			}
			close(g.open)
			seen := map[byte]bool{}
			for range maxWorkers - 1 {
				p.want("67446698 00000000 Cookie:8 Data:4")
				seen[p.f["Cookie"][7]] = true
			}
			if len(seen) != maxWorkers-1 {
				t.Errorf("%d replies", len(seen))
			}
		})
	}
}

// When the server ends, the replies to the requests in flight arrive, and then the end.
func TestEndDrains(t *testing.T) {
	r, g := gated(t, rigConfig{}, nil)
	p := r.transmit(t, false)
	idle := r.transmit(t, true)
	p.send("25609513 0000 0000 0000000000000001 0000000000000000 00000004")
	<-g.arrived
	r.end()
	idle.wantEnd()
	select {
	case <-r.done:
		t.Error("the server ended with a request in flight")
	default:
	}
	r.wantNoListener(t)
	close(g.open)
	p.want("67446698 00000000 0000000000000001 00000000")
	p.wantEnd()
	<-r.done
}

// Requests that take longer than the drain time are given up.
func TestDrainTimeIsBounded(t *testing.T) {
	r, g := gated(t, rigConfig{server: Config{Drain: 20 * time.Millisecond}}, nil)
	p := r.transmit(t, false)
	p.send("25609513 0000 0000 0000000000000001 0000000000000000 00000004")
	<-g.arrived
	r.end()
	p.wantEnd()
	close(g.open)
	<-r.done
}

// A client in its handshake learns of the end.
//
// Source: [NBD §Termination of the session during option haggling]
func TestHandshakeLearnsOfShutdown(t *testing.T) {
	r := start(t, rigConfig{server: Config{HandshakeTimeout: patience, shutdownGrace: patience}})
	p := r.connect(t).greet()
	p.send(optStructured)
	p.want(repStructured)
	r.end()
	r.wantNoListener(t)
	p.send(optMagic + "00000003 00000000")
	b := make([]byte, 16)
	if _, err := io.ReadFull(p, b); err != nil || !bytes.Equal(b[12:], []byte{0x80, 0, 0, 7}) {
		t.Errorf("%x, %v", b, err)
	}
	p.Close()
}

// A client that does not read its replies loses its connection, and delays no other client.
func TestSlowReader(t *testing.T) {
	r := start(t, rigConfig{size: 8 << 20, server: Config{Timeout: 2 * time.Second}})
	slow := r.transmit(t, false)
	go func() { // until the connection is reset
		for i := range 1000 {
			b, _ := slow.f.Make(fmt.Sprintf("25609513 0000 0000 %016x 0000000000000000 00800000", i))
			if _, err := slow.Conn.Write(b); err != nil {
				return
			}
		}
	}()
	other := r.transmit(t, true)
	for range 100 {
		other.send("25609513 0000 0000 0000000000000001 0000000000000200 00000004")
		other.want("668e33ef 0001 0001 0000000000000001 0000000c 0000000000000200 Data:4")
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.log.mu.Lock()
		lost := strings.Contains(strings.Join(r.log.all, "\n"), "connection lost")
		r.log.mu.Unlock()
		if lost {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection stays")
		}
	}
}

// A client that leaves in the middle of replies, or of the data of a write, leaves nothing behind.
func TestClientLeavesInTheMiddle(t *testing.T) {
	r := start(t, rigConfig{size: 8 << 20})
	for i := range 20 {
		p := r.transmit(t, i%2 == 0)
		for j := range 50 {
			p.send(fmt.Sprintf("25609513 0000 0000 %016x 0000000000000000 00100000", j))
		}
		p.send("25609513 0000 0001 0000000000000000 0000000000000000 00100000 0102")
		p.read(1 + 100_000*(i%3))
		p.Close()
	}
}

// Errors of the file have the values of the protocol, and do not end the connection.
//
// Source: [NBD §Error values]
func TestErrorsOfTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		errno string
	}{
		"no space":      {syscall.ENOSPC, "0000001c"},
		"another error": {io.ErrUnexpectedEOF, "00000005"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gated(t, rigConfig{}, c.err)
			p := r.transmit(t, false)
			for _, flags := range []string{"0000", "0001"} {
				p.send("25609513 " + flags + " 0001 0000000000000001 0000000000000000 00000004 01020304")
				p.want("67446698 " + c.errno + " 0000000000000001")
			}
			p.send("25609513 0000 0001 0000000000000001 0000000000000100 00000004 01020304")
			p.want("67446698 00000000 0000000000000001")
		})
	}
	t.Run("shorter file", func(t *testing.T) {
		r := start(t, rigConfig{})
		if err := os.Truncate(r.file, 100); err != nil {
			t.Fatal(err)
		}
		p := r.transmit(t, true)
		p.send("25609513 0000 0000 0000000000000001 0000000000000050 00000020")
		p.want("668e33ef 0001 8001 0000000000000001 00000029 00000005 0023 " + hexOf(errShrunk.Error()))
	})
}

// Another program with the same name closes the opens of an export. Its file is opened again, unless writes
// would be lost unnoticed.
func TestStaleFileIsOpenedAgain(t *testing.T) {
	r := start(t, rigConfig{client: lwio.Config{AppInstance: "disk"}})
	steal := func() {
		t.Helper()
		c := r.share.Client(&lwio.Config{AppInstance: "disk"})
		f, err := c.Open(t.Context(), "disk.raw")
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // the export may have closed it
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p := r.transmit(t, false)
	steal()
	p.send("25609513 0000 0000 0000000000000001 0000000000000004 00000004")
	p.want("67446698 00000000 0000000000000001 " + fmt.Sprintf("%x", pattern(8)[4:]))
	steal()
	p.send("25609513 0000 0001 0000000000000002 0000000000000004 00000004 01020304")
	p.want("67446698 00000000 0000000000000002")
	p.send("25609513 0000 0003 0000000000000003 0000000000000000 00000000")
	p.want("67446698 00000000 0000000000000003")
	steal()
	p.send("25609513 0000 0006 0000000000000004 0000000000000100 00000004")
	p.want("67446698 00000000 0000000000000004") // it is not flushed
	steal()
	for _, command := range []string{"0000 0000 0000000000000005 0000000000000000 00000001", "0000 0003 0000000000000005 0000000000000000 00000000"} {
		p.send("25609513 " + command)
		p.want("67446698 00000005 0000000000000005")
	}
	if b := r.content(t); !bytes.Equal(b[4:8], []byte{1, 2, 3, 4}) || !bytes.Equal(b[0x100:0x104], make([]byte, 4)) {
		t.Error("the file has other content")
	}
}

// Random requests on several connections, each to its own part of the file, over each transport, with and without TLS.
func TestRandomRequests(t *testing.T) {
	server, client := certificates(t)
	for _, c := range []struct {
		name   string
		secure bool
		share  lwiotest.Config
	}{
		{"best transport", false, lwiotest.Config{}},
		{"best transport, TLS", true, lwiotest.Config{}},
		{"SMB", false, lwiotest.Config{SMBOnly: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const part, connections = 1 << 20, 3
			cfg := rigConfig{size: part * connections, share: c.share}
			if c.secure {
				cfg.server.TLS = server
			}
			r := start(t, cfg)
			want := r.content(t)
			done := make(chan struct{})
			for i := range connections {
				p := r.connect(t).greet()
				if c.secure {
					p.secure(client)
				}
				p.choose(i%2 == 0)
				go func() {
					defer func() { done <- struct{}{} }()
					(&player{p: p, structured: i%2 == 0, off: i * part, want: want[i*part:][:part], rng: rand.New(rand.NewPCG(uint64(i), 1))}).play(300)
				}()
			}
			for range connections {
				<-done
			}
			if got := r.content(t); !bytes.Equal(got, want) {
				t.Error("the file has other content")
			}
		})
	}
}

// A listener that another goroutine has closed is an error.
func TestServeReturnsTheErrorOfAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := NewServer(&Config{}).Serve(context.Background(), l); err == nil {
		t.Error("no error")
	}
}
