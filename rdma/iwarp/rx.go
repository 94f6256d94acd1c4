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
	// smallRead is what is read at once while frames are small: they are copied out
	// of the buffer, which is faster while it is in the processor's cache. More than
	// TCP puts in a segment, so that what was written together is read together.
	smallRead = 96 << 10
	// directMin is how much payload must be missing for it to be read straight
	// into its place.
	directMin = 8 << 10
	// directExtra is read into the buffer behind such payload: the trailer, and
	// the beginning of what follows.
	directExtra = 4 << 10
	// directFrames is for how many frames after such payload the buffer is
	// filled by no more than directExtra.
	directFrames = 8
	// restSize is up to how many bytes of a frame are kept elsewhere while nothing
	// arrives, so that few bytes of a peer cost no whole buffer.
	restSize = 1 << 10
)

// receiver reads frames and places what they carry. It belongs to who holds mu,
// or where there is no syscall.RawConn to the reading goroutine.
type receiver struct {
	c  *conn
	mu sync.Mutex

	in  inBuffer
	err error // reading is over

	readFn, guestFn func(fd uintptr) bool // of who has the seat
	naps            uint64                // when the reader last began to read
	looks           lookCounter
	idle            bool // a look found nothing

	started   bool   // a frame was found good
	msn       uint32 // of the next Send
	readMSN   uint32 // of the next Read or Atomic Request
	atomicMSN uint32 // of the next Atomic Response
	gathered  bool   // there are results of receives
	settle    bool   // reads are complete
	kick      bool   // the sender may have something to do

	inFrame
	placement

	direct  int  // see directFrames
	stalled bool // the frame in hand waits for a receive of a shared queue
}

// inFrame is the frame in progress, whose header was found good.
type inFrame struct {
	active  bool
	seg     frame.Segment
	header  [frame.UntaggedSize]byte // seg as it arrived
	ulpdu   int
	left    int // payload still to come
	trailer int // pad and CRC
}

func (x *receiver) init(c *conn) {
	x.c, x.msn, x.readMSN, x.atomicMSN = c, 1, 1, 1
	x.readFn, x.guestFn = x.read, x.readAsGuest
}

// loop reads until the connection ends and says why.
func (x *receiver) loop() error {
	c := x.c
	for c.ending.Load() == nil {
		var err error
		if c.raw != nil {
			c.takeSeat()
			if err = c.raw.Read(x.readFn); err != nil && c.spurious(err) {
				err = nil
			}
			c.progress.seat.Store(seatFree)
		} else if n, e := c.nc.Read(x.in.space(x.readAhead())); x.took(n, e) {
			continue
		}
		switch {
		case err != nil:
			return err
		case c.progress.claims.Load()&claimStall != 0:
			if err := x.await(); err != nil {
				return err
			}
		}
	}
	return io.EOF
}

// close ends reading for good. The caller has the seat.
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

// fail notes that reading is over and ends the connection.
func (x *receiver) fail(err error) {
	if x.err == nil {
		x.err = err
		x.c.end(x.c.endingFor(err))
	}
}

// await waits until the message in hand has a receive, and goes on with what is
// in the buffer. Nothing is read meanwhile.
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
		x.took(0, nil)
		err, stalled := x.err, x.stalled
		if !stalled {
			x.c.progress.claims.And(^claimStall)
		}
		x.mu.Unlock()
		if err != nil || !stalled {
			return err
		}
	}
}

// read takes all that is there, for the reader. False says that it must wait for
// more.
func (x *receiver) read(uintptr) bool {
	x.naps = x.c.qp.naps.Load()
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.c.ending.Load() == nil {
		if more, ok := x.readSome(); !ok {
			return true
		} else if !more {
			x.in.free()
			return x.c.progress.wanted.Load() && x.c.progress.mayRead()
		}
	}
	return true
}

// readAsGuest takes what is there until something was pushed that the guest waits
// for.
func (x *receiver) readAsGuest(uintptr) bool {
	p := &x.c.progress
	p.rise()
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

// readOnce takes some of what is there, for who polls. Nobody may come after that,
// so it keeps no buffer.
func (x *receiver) readOnce() {
	more, _ := x.readSome()
	x.idle = !more
	x.in.free()
}

// readSome reads once. more says that there may be more, ok that reading can go
// on at all. After the last read the buffer is to be freed.
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
	return true, x.took(n, err)
}

// took handles the outcome of a read into the buffer; false says that no more can
// be read, for now or for good.
func (x *receiver) took(n int, err error) bool {
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

// push puts the results that were gathered in the completion queues, and lets
// the sender go on if it could not. It never waits for it.
func (x *receiver) push() {
	qp := x.c.qp
	if x.gathered {
		x.gathered = false
		qp.Receives.Push()
	}
	if x.settle {
		x.settle = false
		qp.Initiator.Settle(0)
	}
	if x.kick {
		x.kick = false
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

// begin looks at the header of the next frame. more says that it is not all
// there.
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

// body handles the payload of the frame in progress. more says that it is not
// all there.
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
