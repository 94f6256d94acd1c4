package iwarp

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"lwio/rdma/iwarp/internal/frame"
)

// Sizes that govern reading, in bytes.
const (
	// readBufferSize holds some of the largest frames.
	readBufferSize = 256 << 10
	// smallRead is the size of a read while frames are small. Small frames are copied out
	// of the buffer, which is faster while the buffer is in the processor's cache.
	// smallRead exceeds a TCP segment, so that data that was written together is read
	// together.
	smallRead = 96 << 10
	// directMin is the least missing payload that is read directly into its destination.
	directMin = 8 << 10
	// directExtra is the number of bytes that are read into the buffer after such
	// payload: the trailer and the beginning of the next frame.
	directExtra = 4 << 10
	// directFrames is the number of frames after such payload for which a read into the
	// buffer has at most directExtra bytes.
	directFrames = 8
	// restSize is the largest part of a frame of a known peer that is kept outside a buffer
	// while nothing arrives, so that a few bytes of a peer do not occupy a whole buffer. The
	// copy of a larger part costs more than the memory is worth.
	restSize = 1 << 10
)

// receiver reads frames and places their payload. It belongs to the holder of mu, or
// without a syscall.RawConn to the reading goroutine.
type receiver struct {
	c  *conn
	mu sync.Mutex

	in  inBuffer
	err error // set when reading has ended

	readFn, waiterFn func(fd uintptr) bool // belong to the goroutine in sleeper.role
	sleeps           uint64                // value of queuePair.sleeps at the reader's last read
	looks            lookCounter
	idle             bool // the last look found no data

	started    bool   // a valid frame has arrived
	msn        uint32 // of the next Send
	readMSN    uint32 // of the next Read or Atomic Request
	atomicMSN  uint32 // of the next Atomic Response
	gathered   bool   // results of receives are gathered
	readsDone  bool   // reads are complete
	wakeSender bool   // the sender may have work

	inFrame
	placement

	direct  int  // frames left of directFrames
	stalled bool // the frame waits for a receive of a shared queue
}

// inFrame is the frame in progress. Its header is valid.
type inFrame struct {
	active  bool
	seg     frame.Segment
	header  [frame.UntaggedSize]byte // seg as it arrived
	ulpdu   int
	left    int // payload that is not placed yet
	trailer int // size of padding and CRC
}

func (x *receiver) init(c *conn) {
	x.c, x.msn, x.readMSN, x.atomicMSN = c, 1, 1, 1
	x.readFn, x.waiterFn = x.read, x.readForWaiter
}

// loop reads until the connection ends and returns the reason.
func (x *receiver) loop() error {
	c := x.c
	for c.ending.Load() == nil {
		var err error
		if c.raw != nil {
			c.becomeSleeper()
			if err = c.raw.Read(x.readFn); err != nil && c.spurious(err) {
				err = nil
			}
			c.sleeper.role.Store(roleNone)
		} else if n, e := x.readBlocking(); x.handleRead(n, e) {
			x.in.freeUnknown()
			continue
		}
		switch {
		case err != nil:
			return err
		case c.sleeper.claims.Load()&claimStall != 0:
			if err := x.await(); err != nil {
				return err
			}
		}
	}
	return io.EOF
}

// close ends reading. The caller has sleeper.role.
func (x *receiver) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = net.ErrClosed
	}
	if x.stalled {
		x.c.qp.Receives.Leave()
	}
	x.in.r, x.in.w = 0, 0
	x.in.free()
}

// fail ends reading and the connection.
func (x *receiver) fail(err error) {
	if x.err == nil {
		x.err = err
		x.c.end(x.c.endingFor(err))
	}
}

// await waits until the message in progress has a receive, and continues with the bytes
// in the buffer. The socket is not read meanwhile.
//
// Source: [ND §6.5]
func (x *receiver) await() error {
	for {
		select {
		case <-x.c.qp.resume:
		case <-x.c.ended:
			return io.EOF
		}
		x.mu.Lock()
		x.stalled = false
		x.handleRead(0, nil)
		err, stalled := x.err, x.stalled
		if !stalled {
			x.c.sleeper.claims.And(^claimStall)
		}
		x.mu.Unlock()
		if err != nil || !stalled {
			return err
		}
	}
}

// read reads all available data for the reader. It returns false if the reader must wait
// for more.
func (x *receiver) read(uintptr) bool {
	x.sleeps = x.c.qp.sleeps.Load()
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.c.ending.Load() == nil {
		if more, ok := x.readSome(); !ok {
			return true
		} else if !more {
			x.in.free()
			return x.c.sleeper.wanted.Load() && x.c.sleeper.mayRead()
		}
	}
	return true
}

// readForWaiter reads data until the waiter has its result.
func (x *receiver) readForWaiter(uintptr) bool {
	p := &x.c.sleeper
	p.setAwake()
	for more := true; more; {
		x.mu.Lock()
		var ok bool
		if more, ok = x.readSome(); !more {
			x.in.free()
		}
		x.mu.Unlock()
		if !ok || p.over() || !p.mayRead() {
			return true
		}
	}
	p.parked.Store(true)
	return p.over() || !p.mayRead()
}

// readBlocking waits for data of a connection without a syscall.RawConn, and reads it into the
// buffer. The wait for an unknown peer takes no buffer.
func (x *receiver) readBlocking() (int, error) {
	if x.in.known {
		return x.c.nc.Read(x.in.space(x.readAhead()))
	}
	var b [restSize]byte
	n, err := x.c.nc.Read(b[:])
	copy(x.in.space(restSize), b[:n])
	return n, err
}

// readOnce reads some data for a poller. It keeps no buffer, because no other call may
// follow.
func (x *receiver) readOnce() {
	more, _ := x.readSome()
	x.idle = !more
	x.in.free()
}

// readSome reads once. more means that there may be more data, ok that reading can
// continue. The caller frees the buffer after the last read.
func (x *receiver) readSome() (more, ok bool) {
	if x.err != nil || x.stalled {
		return false, false
	}
	place, held := x.directSpace()
	n, there, err := readSocket(x.c.fd, place, x.in.space(x.readAhead()))
	if place != nil {
		held.Release()
	}
	if !there {
		return false, true
	}
	if n > 0 && place != nil {
		d := min(n, len(place))
		x.left -= d
		x.advance(x.seg.Opcode(), d)
		n -= d
		x.direct = directFrames
		if n == 0 {
			return true, true
		}
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return true, x.handleRead(n, err)
}

// handleRead handles the outcome of a read into the buffer. It returns false if reading
// must stop, until a receive is posted or because the connection ends.
func (x *receiver) handleRead(n int, err error) bool {
	x.in.w += n
	fault := x.consume()
	x.regions.flush()
	x.push()
	if fault != nil {
		err = fault
	}
	if errors.Is(err, io.EOF) && (x.active || x.in.r != x.in.w || x.receive != nil || x.reading != nil) {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		x.fail(err)
		return false
	case x.stalled:
		x.c.claim(claimStall)
		return false
	}
	return true
}

// push pushes the gathered results to the completion queues, and wakes the sender if it
// may have work. It never waits for the sender.
func (x *receiver) push() {
	qp := x.c.qp
	if x.gathered {
		x.gathered = false
		qp.Receives.Push()
	}
	if x.readsDone {
		x.readsDone = false
		qp.Initiator.Settle(0)
	}
	if x.wakeSender {
		x.wakeSender = false
		x.c.tx.wake()
	}
}

// consume handles the frames in the buffer.
func (x *receiver) consume() error {
	x.in.take()
	for x.in.w-x.in.r >= frame.FPDUHeaderSize || x.active {
		if !x.active {
			more, err := x.begin()
			if more || err != nil {
				return err
			}
		}
		more, err := x.body()
		if more || err != nil {
			return err
		}
	}
	return nil
}

// begin decodes the header of the next frame. more means that the header is incomplete,
// or that its message must wait.
func (x *receiver) begin() (more bool, err error) {
	b := x.in.buf[x.in.r:x.in.w]
	n := int(binary.BigEndian.Uint16(b))
	if x.c.crc {
		size := frame.FPDUSize(n)
		if len(b) < size {
			return true, nil
		}
		if !frame.CheckFPDU(b[:size]) {
			return false, &violation{fault: frame.FaultCRC}
		}
	} else if len(b) < frame.FPDUHeaderSize+min(n, frame.UntaggedSize) {
		return true, nil
	}
	b = b[frame.FPDUHeaderSize:]
	if err := x.seg.Decode(b[:min(n, len(b))]); err != nil {
		return false, &violation{fault: frame.FaultFraming}
	}
	h := x.seg.Size()
	copy(x.header[:], b[:h])
	x.ulpdu, x.left, x.trailer = n, n-h, frame.PadOf(n)+frame.CRCSize
	if err := x.accept(); errors.Is(err, errStalled) {
		x.stalled = true
		return true, nil
	} else if err != nil {
		return false, err
	}
	x.in.r += frame.FPDUHeaderSize + h
	x.active = true
	return false, nil
}

// body handles the payload of the frame in progress. more means that the payload is
// incomplete.
func (x *receiver) body() (more bool, err error) {
	have := x.in.w - x.in.r
	if have < x.left+x.trailer {
		missing := x.left - have
		if x.c.raw == nil || x.c.crc || missing < directMin || x.control() {
			return true, nil
		}
		err := x.placePayload(x.in.buf[x.in.r:x.in.w])
		x.in.r = x.in.w
		return true, err
	}
	payload := x.in.buf[x.in.r : x.in.r+x.left]
	x.in.r += x.left + x.trailer
	x.active = false
	x.direct = max(x.direct-1, 0)
	if x.control() {
		err = x.takeControl(payload)
	} else {
		err = x.placePayload(payload)
		x.in.known = x.in.known || len(payload) > 0 && x.seg.Tagged()
	}
	if err != nil {
		return false, err
	}
	if err := x.finish(); err != nil {
		return false, err
	}
	if !x.started {
		x.started = true
		x.c.opened()
	}
	return false, nil
}

// discard reads to the end of the stream.
func (x *receiver) discard() {
	b := readBuffers.Get().(*[readBufferSize]byte)
	defer readBuffers.Put(b)
	for {
		if _, err := x.c.nc.Read(b[:]); err != nil {
			return
		}
	}
}
