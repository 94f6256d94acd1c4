//go:build linux

package iwarp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// One system call writes all parts of a batch, from the end of an earlier write.
//
// Source: [RFC 5044 §4]
func TestWriteSocketWritesAllParts(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	payload := bytes.Repeat([]byte{7}, 4096)
	for _, frames := range []int{0, 1, 20} {
		b := newBatch()
		want := []byte{}
		add := func(v uint16) {
			b.put16(v)
			want = append(want, byte(v>>8), byte(v))
		}
		add(1)
		for i := range frames {
			b.refer(hold{grant: softrdma.Grant{}}, payload)
			want = append(want, payload...)
			add(uint16(i))
		}
		b.seal()
		for _, gone := range []int{0, 1} {
			if gone > 0 && b.advance(gone) {
				t.Fatal("over after one byte")
			}
			n, err := b.writeSocket(fds[0])
			if err != nil || n != len(want)-gone {
				t.Fatalf("%d frames, %d gone: %d of %d bytes, %v", frames, gone, n, len(want), err)
			}
			got := make([]byte, len(want)+1)
			if n, err = unix.Read(fds[1], got); err != nil || !bytes.Equal(got[:n], want[gone:]) {
				t.Fatalf("%d frames, %d gone: another message: %d bytes, %v", frames, gone, n, err)
			}
		}
	}
	// A full socket accepts no bytes.
	b := newBatch()
	b.refer(hold{}, payload)
	for err == nil {
		_, err = b.writeSocket(fds[0])
	}
	if err != errAgain { //nolint:errorlint // it is never wrapped
		t.Error(err)
	}
}

// After the end of a connection, no goroutine reads from its descriptor or writes to it,
// because the descriptor may belong to another connection. This holds for a look that
// began before the end, and for later looks and posts.
func TestClosedDescriptorIsNotUsed(t *testing.T) {
	_, server := linkedPair(t)
	c := linked(t, server)
	qp := server.qp.(*queuePair)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for open := true; open; runtime.Gosched() {
				select {
				case <-c.finished:
					open = false
				default:
				}
				c.look()
				_, _ = qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess, SGL: server.sgl(0, 8)}})
			}
		})
	}
	qp.Close()
	wg.Wait()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := fds[0], fds[1]
	if far == c.fd {
		near, far = far, near
	}
	if near != c.fd {
		again, err := unix.FcntlInt(uintptr(near), unix.F_DUPFD_CLOEXEC, c.fd)
		if err != nil || again != c.fd {
			t.Fatalf("descriptor %d is in use: %d, %v", c.fd, again, err)
		}
		unix.Close(near)
	}
	defer unix.Close(far)
	defer unix.Close(c.fd)
	if _, err := unix.Write(far, []byte("not ours")); err != nil {
		t.Fatal(err)
	}
	c.look()
	c.rx.mu.Lock()
	c.rx.readOnce() // a look that began before
	c.rx.mu.Unlock()
	qp.Initiator.Lock()
	qp.Initiator.Requests.Push().Op = rdma.OpSend // a post that began before
	qp.Initiator.Unlock()
	c.tx.wake()
	got := make([]byte, 16)
	if n, err := unix.Read(c.fd, got); err != nil || string(got[:n]) != "not ours" {
		t.Errorf("the data of another connection was read: %q, %v", got[:max(n, 0)], err)
	}
	if n, err := unix.Read(far, got); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("%d bytes were written for another, %v", n, err)
	}
}

// TCP checks both ends of a connection: an idle one by probes, and one with data by its time-out.
//
// Source: [OP-94g]
func TestKeepAliveIsSet(t *testing.T) {
	for _, x := range []struct {
		cfg  time.Duration
		want int // seconds
	}{{0, 10}, {20 * time.Second, 20}, {-1, 0}} {
		client, server := connect(t, &Config{KeepAlive: x.cfg}, &Config{KeepAlive: x.cfg}, shape{depth: 4, sge: 1, buf: 4096})
		for _, e := range []*side{client, server} {
			err := e.qp.(*queuePair).c.raw.Control(func(fd uintptr) {
				option := func(level, name int) int {
					v, err := unix.GetsockoptInt(int(fd), level, name)
					if err != nil {
						t.Error(err)
					}
					return v
				}
				if on := option(unix.SOL_SOCKET, unix.SO_KEEPALIVE); on != min(x.want, 1) {
					t.Errorf("%v: keepalive is %d", x.cfg, on)
				}
				if n := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); n != 1000*x.want {
					t.Errorf("%v: user time-out %d ms", x.cfg, n)
				}
				idle, interval, count := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
				if n := idle + interval*count; x.want > 0 && n > x.want {
					t.Errorf("%v: the probes end after %d s", x.cfg, n)
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A connection within the host does not estimate bandwidth.
func TestLocalConnectionUsesReno(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, raw := adopt(c)
	defer c.Close()
	err = raw.Control(func(fd uintptr) {
		got, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err != nil || got != localCongestion {
			t.Errorf("congestion control %q, %v", got, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A connection stays within the host if both addresses are equal, or if the peer's
// address is a loopback address.
func TestSameHostByAddresses(t *testing.T) {
	addr := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	for _, c := range []struct {
		local, remote net.Addr
		want          bool
	}{
		{addr("127.0.0.1:1"), addr("127.0.0.1:2"), true},
		{addr("127.0.0.1:1"), addr("127.0.0.9:2"), true},
		{addr("[::1]:1"), addr("[::1]:2"), true},
		{addr("192.0.2.1:1"), addr("192.0.2.1:2"), true},
		{addr("192.0.2.1:1"), addr("[::ffff:192.0.2.1]:2"), true},
		{addr("192.0.2.1:1"), addr("192.0.2.2:2"), false},
		{addr("[fe80::1%a]:1"), addr("[fe80::1%a]:2"), true},
		{addr("[fe80::1%a]:1"), addr("[fe80::1%b]:2"), false},
		{addr("[2001:db8::1]:1"), addr("[2001:db8::2]:1"), false},
		{&net.UnixAddr{Name: "a"}, &net.UnixAddr{Name: "a"}, false},
	} {
		if got := sameHost(c.local, c.remote); got != c.want {
			t.Errorf("%v to %v: %t, want %t", c.local, c.remote, got, c.want)
		}
	}
}
