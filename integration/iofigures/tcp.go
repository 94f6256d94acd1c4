package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"lwio/integration/internal/measure"
)

// The messages of a read over LWIO, in bytes: what is asked, and what comes with the data.
const (
	questionSize = 48
	statusSize   = 16
)

// tcpLane is a connection to a peer, which is a program that does the least that can
// be done.
type tcpLane struct {
	job
	c    *net.TCPConn
	bufs [][]byte
	sent int // blocks of sink
}

// openTCP connects, and says what the peer is to do.
func openTCP(j job) (lane, error) {
	d := net.Dialer{Control: measure.Congestion(j.congestion())}
	c, err := d.Dial("tcp", j.At)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "%s %d %s\n", j.Style, j.Size, j.congestion()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &tcpLane{job: j, c: c.(*net.TCPConn), bufs: buffers(filled(make([]byte, j.Depth*j.Size)), j.Size)}, nil
}

// congestion is the congestion control of a job over TCP; "" is the system's.
func (j job) congestion() string {
	if j.Cubic {
		return "cubic"
	}
	return ""
}

// Close closes the connection, and with it ends what the peer does.
func (l *tcpLane) Close() error { return l.c.Close() }

func (l *tcpLane) run(m *meter) error {
	switch l.Style {
	case sink, drain:
		return l.fill(m)
	case stream:
		i := 0
		return m.do(func(int64) error {
			i++
			_, err := io.ReadFull(l.c, l.bufs[i%len(l.bufs)])
			return err
		})
	}
	question, answer := make([]byte, questionSize), make([]byte, l.Size+statusSize)
	return waiting(l.c, l.Style, func(c io.ReadWriter) error {
		return m.do(func(int64) error {
			if _, err := c.Write(question); err != nil {
				return err
			}
			_, err := io.ReadFull(c, answer)
			return err
		})
	})
}

// fill keeps blocks in flight; an operation is an answer, and the next block.
func (l *tcpLane) fill(m *meter) error {
	send := func() error {
		_, err := l.c.Write(l.bufs[l.sent%len(l.bufs)])
		l.sent++
		return err
	}
	for l.sent < l.Depth {
		if err := send(); err != nil {
			return err
		}
	}
	answer := make([]byte, 1)
	return m.do(func(int64) error {
		if _, err := io.ReadFull(l.c, answer); err != nil {
			return err
		}
		return send()
	})
}

// waiting calls f with the connection, whose reads spin or sleep.
func waiting(c *net.TCPConn, s style, f func(c io.ReadWriter) error) error {
	if s == sleep {
		return f(c)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(measure.Spinner(fd)) })
	return errors.Join(err, inner)
}

// playPeer is the main function of the peer process. It serves a file to one
// connection after another.
func playPeer(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		// Its client ends a job by closing.
		_ = errors.Join(servePeer(c.(*net.TCPConn), f), c.Close())
	}
}

// servePeer does what the first line of a connection says, until the connection ends.
func servePeer(c *net.TCPConn, f *os.File) error {
	s, size, congestion, err := readOrder(c)
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if err := measure.SetCongestion(raw, congestion); err != nil {
		return err
	}
	switch s {
	case stream:
		return sendBlocks(c, f, size)
	case sink, drain:
		return takeBlocks(c, f, size, s == sink)
	}
	question, answer := make([]byte, questionSize), make([]byte, size+statusSize)
	return waiting(c, s, func(c io.ReadWriter) error {
		for {
			if _, err := io.ReadFull(c, question); err != nil {
				return err
			}
			if _, err := c.Write(answer); err != nil {
				return err
			}
		}
	})
}

// readOrder reads the first line, and nothing behind it: what to do, with blocks of how
// many bytes, and the congestion control.
func readOrder(c io.Reader) (s style, size int, congestion string, err error) {
	var line strings.Builder
	for one := make([]byte, 1); ; line.Write(one) {
		if _, err := io.ReadFull(c, one); err != nil {
			return "", 0, "", err
		}
		if one[0] == '\n' {
			break
		}
	}
	words := strings.SplitN(line.String(), " ", 3)
	if len(words) < 3 {
		return "", 0, "", fmt.Errorf("order %q: too few words", line.String())
	}
	size, err = strconv.Atoi(words[1])
	return style(words[0]), size, words[2], err
}

// sendBlocks reads blocks at random places and writes them to the connection.
func sendBlocks(c net.Conn, f *os.File, size int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p := make([]byte, size)
	for {
		if _, err := f.ReadAt(p, anywhere(info, size)); err != nil {
			return err
		}
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
}

// takeBlocks writes what comes to random places, if it is to be kept, and answers each
// block.
func takeBlocks(c net.Conn, f *os.File, size int, keep bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p := make([]byte, size)
	for {
		if _, err := io.ReadFull(c, p); err != nil {
			return err
		}
		if keep {
			if _, err := f.WriteAt(p, anywhere(info, size)); err != nil {
				return err
			}
		}
		if _, err := c.Write(p[:1]); err != nil {
			return err
		}
	}
}

// anywhere is a place of a block in a file.
func anywhere(info os.FileInfo, size int) int64 {
	return rand.Int64N(info.Size()/int64(size)) * int64(size)
}
