package sides

import (
	"io"
	"time"
)

const (
	// maxPiece is the most data of a request over LWIO, by default. A larger operation takes several.
	maxPiece = 512 << 10
	// flushSize bounds the answers or requests that one call sends together.
	flushSize = 64 << 10
)

// exchange is a side that reads or writes blocks of the file with the messages of a sealed LWIO connection, over TCP
// and without LWIO. The sizes of the messages and the order of the work do not depend on the AEAD, so that
// two jobs, without Seal and with it, differ by the AEAD between system calls, and nothing else.
type exchange struct {
	*side
	conn   io.ReadWriter
	sealer *sealer // nil without AEAD
	blocks *blockFile
	source []byte // data that the active side writes
	out    []byte // frames that are not sent yet
	in     frames
	pieces int // of an operation
	toSend int // data bytes of a sent frame
	toRecv int // data bytes of a received frame
}

// readRecords and writeRecords are the exchanges of reads and writes.
func (s *side) readRecords() error  { return s.exchange(false) }
func (s *side) writeRecords() error { return s.exchange(true) }

// exchange plays one side. Flight operations are in flight.
func (s *side) exchange(write bool) error {
	return s.withConn(func(c io.ReadWriter) (err error) {
		blocks, err := s.openBlocks()
		if err != nil {
			return err
		}
		defer blocks.close()
		x := &exchange{side: s, conn: c, blocks: blocks, pieces: (s.Size + maxPiece - 1) / maxPiece}
		piece := s.Size / x.pieces
		blocks.resize(piece)
		out, in := requestRecord, answerRecord
		if !s.Active {
			out, in = in, out
		}
		if s.Active == write {
			x.toSend, x.source = piece, filled(make([]byte, piece))
		} else {
			x.toRecv = piece
		}
		x.out = filled(make([]byte, max(flushSize, out+x.toSend)))[:0]
		x.in = frames{mem: make([]byte, max(s.Flight, 1)*x.pieces*(in+x.toRecv)), size: in + x.toRecv}
		if s.Seal {
			if x.sealer, err = newSealer(s.Active); err != nil {
				return err
			}
		}
		if s.Active {
			return s.phases(x.ask)
		}
		return s.phases(x.serve)
	})
}

// ask sends requests and takes their answers. A single operation in flight is timed.
func (x *exchange) ask(ops int) error {
	ops *= x.pieces
	flight := max(x.Flight, 1) * x.pieces
	for sent, answered := 0, 0; answered < ops; {
		start := time.Now()
		for ; sent < min(ops, answered+flight); sent++ {
			if err := x.send(requestRecord); err != nil {
				return err
			}
		}
		if err := x.flush(); err != nil {
			return err
		}
		for more := true; more; more = flight == 1 && answered < sent {
			n, err := x.in.receive(x.conn, x.open)
			if err != nil {
				return err
			}
			answered += n
		}
		if flight == 1 {
			x.delays = append(x.delays, time.Since(start))
		}
	}
	return nil
}

// serve answers requests.
func (x *exchange) serve(ops int) error {
	for served := 0; served < ops*x.pieces; {
		n, err := x.in.receive(x.conn, func(frame []byte) error {
			if err := x.open(frame); err != nil {
				return err
			}
			return x.send(answerRecord)
		})
		if err != nil {
			return err
		}
		served += n
		if err := x.flush(); err != nil {
			return err
		}
	}
	return nil
}

// send appends a frame to those that are sent together: a record, and data in front of it. Data of the passive side is
// a block of the file.
func (x *exchange) send(record int) error {
	size := x.toSend + record
	if len(x.out)+size > cap(x.out) {
		if err := x.flush(); err != nil {
			return err
		}
	}
	at := len(x.out)
	x.out = x.out[:at+size]
	data, rec := x.out[at:at+x.toSend], x.out[at+x.toSend:]
	source := x.source
	if !x.Active && x.toSend > 0 {
		if _, err := x.blocks.f.ReadAt(data, x.blocks.random()); err != nil {
			return err
		}
		source = data
	}
	if x.sealer != nil {
		x.sealer.seal(data, source, rec)
	}
	return nil
}

// open takes a received frame. Data at the passive side is written to the file.
func (x *exchange) open(frame []byte) error {
	data, rec := frame[:x.toRecv], frame[x.toRecv:]
	if x.sealer != nil {
		if err := x.sealer.open(data, rec); err != nil {
			return err
		}
	}
	if x.Active || len(data) == 0 {
		return nil
	}
	_, err := x.blocks.f.WriteAt(data, x.blocks.random())
	return err
}

// flush sends the frames that wait.
func (x *exchange) flush() error {
	if len(x.out) == 0 {
		return nil
	}
	_, err := x.conn.Write(x.out)
	x.out = x.out[:0]
	return err
}

// frames receives frames of one size, as many by one call as have arrived. The memory has room for a whole
// number of frames: all that are in flight.
type frames struct {
	mem  []byte
	size int // of a frame
	at   int // end of the received bytes
	done int // end of the frames that were taken
}

// receive calls take for each frame that has arrived, and returns their number. It waits for some bytes, not for a
// whole frame.
func (f *frames) receive(c io.Reader, take func(frame []byte) error) (n int, err error) {
	got, err := c.Read(f.mem[f.at:])
	if err != nil {
		return 0, err
	}
	f.at += got
	for ; f.at-f.done >= f.size; f.done += f.size {
		if err := take(f.mem[f.done : f.done+f.size]); err != nil {
			return n, err
		}
		n++
	}
	if f.done == len(f.mem) {
		f.at, f.done = 0, 0
	}
	return n, nil
}
