package sides

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lwio/internal/host"
)

// smallMessage is the size of the messages of SMB for one small file without its data, in bytes: the CREATE, READ or WRITE,
// rename and CLOSE of a name of a few letters, and as much for the responses.
const smallMessage = 400

// smallCopy is a side that copies the small files of a directory, one message and one answer for each, by the fewest
// system calls: open, read and close, and open, write, close and rename. The names come from the directory on both sides.
type smallCopy struct {
	*side
	conn  io.ReadWriter
	names []string
	out   []byte // frames that are not sent yet
	in    frames
	fill  int // bytes of a sent frame
}

// smallFiles copies the files of a directory, of Size bytes each, once, Flight of them in flight.
func (s *side) smallFiles() error { return s.withConn(s.copySmall) }

func (s *side) copySmall(conn io.ReadWriter) error {
	entries, err := os.ReadDir(s.File)
	if err != nil {
		return err
	}
	c := &smallCopy{side: s, conn: conn, fill: smallMessage}
	for _, e := range entries {
		c.names = append(c.names, e.Name())
	}
	received := smallMessage
	if s.sendsFiles() {
		c.fill += s.Size
	} else {
		received += s.Size
		if err := os.Mkdir(s.To, 0o755); err != nil {
			return err
		}
	}
	c.in = frames{mem: make([]byte, max(s.Flight, 1)*received), size: received}
	cpu, start := host.CPUTime(), time.Now()
	if s.Active {
		err = c.ask()
	} else {
		err = c.serve()
	}
	s.outcome = outcome{Ops: len(c.names), Took: time.Since(start), CPU: host.CPUTime() - cpu}
	return err
}

// sendsFiles reports whether this side reads the files.
func (s *side) sendsFiles() bool { return s.Active == s.Up }

// ask sends a message for each file and takes the answers.
func (c *smallCopy) ask() error {
	for sent, answered := 0, 0; answered < len(c.names); {
		for ; sent < min(len(c.names), answered+max(c.Flight, 1)); sent++ {
			if err := c.send(sent); err != nil {
				return err
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
		n, err := c.in.receive(c.conn, c.take)
		if err != nil {
			return err
		}
		answered += n
	}
	return nil
}

// serve answers the messages.
func (c *smallCopy) serve() error {
	for served := 0; served < len(c.names); {
		n, err := c.in.receive(c.conn, func(frame []byte) error {
			if err := c.take(frame); err != nil {
				return err
			}
			return c.send(int(binary.LittleEndian.Uint32(frame)))
		})
		if err != nil {
			return err
		}
		served += n
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// send appends the frame of a file, with its content if this side reads the files.
func (c *smallCopy) send(file int) error {
	if len(c.out)+c.fill > flushSize {
		if err := c.flush(); err != nil {
			return err
		}
	}
	at := len(c.out)
	c.out = append(c.out, make([]byte, c.fill)...)
	binary.LittleEndian.PutUint32(c.out[at:], uint32(file))
	if c.fill == smallMessage {
		return nil
	}
	fd, err := syscall.Open(filepath.Join(c.File, c.names[file]), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Read(fd, c.out[at+smallMessage:])
	return errors.Join(err, syscall.Close(fd))
}

// take writes the file of a received frame, if it has its content.
func (c *smallCopy) take(frame []byte) error {
	if len(frame) == smallMessage {
		return nil
	}
	file := int(binary.LittleEndian.Uint32(frame))
	if file >= len(c.names) {
		return fmt.Errorf("file %d of %d", file, len(c.names))
	}
	part, name := filepath.Join(c.To, fmt.Sprint(".part", file)), filepath.Join(c.To, c.names[file])
	fd, err := syscall.Open(part, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, frame[smallMessage:])
	return errors.Join(err, syscall.Close(fd), syscall.Rename(part, name))
}

// flush sends the frames that wait.
func (c *smallCopy) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}
