//go:build linux

package iwarp

import (
	"bytes"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma/internal/soft"
)

// TestWriteSocket: one system call takes all parts of a batch, from where an
// earlier one left off.
//
// Source: [RFC 5044 §4]
func TestWriteSocket(t *testing.T) {
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
			b.refer(hold{lease: soft.Lease{}}, payload)
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
	// A full socket takes nothing.
	b := newBatch()
	b.refer(hold{}, payload)
	for err == nil {
		_, err = b.writeSocket(fds[0])
	}
	if err != errAgain { //nolint:errorlint // it is never wrapped
		t.Error(err)
	}
}

// TestKeepAlive: TCP looks after both ends of a connection on which nobody sends.
//
// Source: [OP-94g]
func TestKeepAlive(t *testing.T) {
	cfg := withDefaults(nil)
	l, err := cfg.Listen(t.Context(), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := cfg.Dial(t.Context(), nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for _, c := range []net.Conn{dialled, accepted} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			for _, o := range []struct{ level, name, most int }{
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			} {
				if v, e := unix.GetsockoptInt(int(fd), o.level, o.name); v == 0 || v > o.most || e != nil {
					t.Errorf("option %d is %d, %v", o.name, v, e)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}
