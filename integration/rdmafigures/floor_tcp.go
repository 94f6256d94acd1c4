package main

import (
	"errors"
	"io"
	"net"

	"lwio/integration/internal/measure"
)

// openTCP makes the connection of the two sides.
func (s *side) openTCP() (*net.TCPConn, error) {
	if s.Active {
		var addr string
		if err := s.peer(&addr); err != nil {
			return nil, err
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := s.ready(l.Addr().String()); err != nil {
		return nil, err
	}
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// floorTCPPings sends Size bytes there and back over TCP: asleep between, as
// net.Conn does it, or with reads that do not block in a loop.
func floorTCPPings(s *side) error {
	c, err := s.openTCP()
	if err != nil {
		return err
	}
	if s.Sleep {
		return s.pings(c)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = s.pings(measure.Spinner(fd)) })
	return errors.Join(err, inner, c.Close())
}

// pings plays on a connection, which it closes; all of a message comes at once.
func (s *side) pings(c io.ReadWriteCloser) error {
	buf := make([]byte, s.Size)
	say := func() error { _, err := c.Write(buf); return err }
	listen := func() error { _, err := io.ReadFull(c, buf); return err }
	err := s.phases(func(ops int) error {
		for range ops {
			if err := s.turn(say, listen); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, c.Close())
}

// floorTCPStream writes the bytes of a stream of writes, Flight of them by one
// call,
// and reads them into as many buffers as the writes go to. The end is answered by
// one byte.
func floorTCPStream(s *side) error {
	c, err := s.openTCP()
	if err != nil {
		return err
	}
	mem := make([]byte, s.Size*s.Buffers)
	for i := range mem {
		mem[i] = byte(i)
	}
	chunk := s.Size * max(s.Batch, 1)
	answer := make([]byte, 1)
	err = s.phases(func(ops int) error {
		if s.Active {
			return writeAll(c, mem, chunk, ops*s.Size, answer)
		}
		return readAll(c, mem, ops*s.Size, answer)
	})
	return errors.Join(err, c.Close())
}

// writeAll writes total bytes in chunks and waits for the answer.
func writeAll(c net.Conn, mem []byte, chunk, total int, answer []byte) error {
	for at := 0; total > 0; at = (at + chunk) % len(mem) {
		n, err := c.Write(mem[at : at+min(chunk, total)])
		if err != nil {
			return err
		}
		total -= n
	}
	_, err := io.ReadFull(c, answer)
	return err
}

// readAll reads total bytes into the memory, round and round, and answers.
func readAll(c net.Conn, mem []byte, total int, answer []byte) error {
	for at := 0; total > 0; {
		n, err := c.Read(mem[at:min(at+total, len(mem))])
		if err != nil {
			return err
		}
		total -= n
		if at += n; at == len(mem) {
			at = 0
		}
	}
	_, err := c.Write(answer)
	return err
}
