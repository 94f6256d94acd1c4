package lwio_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// Sizes of MPA, DDP and RDMAP on the wire, in bytes.
const (
	mpaStartSize = 20
	mpaLength    = 2
	crcSize      = 4
	taggedHeader = 14
	otherHeader  = 18
	taggedBit    = 0x80
	lastBit      = 0x40
)

// direction is the way of a frame.
type direction int

const (
	toServer direction = iota
	toClient
)

func (d direction) String() string { return [...]string{"to server", "to client"}[d] }

// attack changes the frame with a number in one direction. It gets the frame and the next one,
// and returns the bytes to send instead of both. Frame 0 is the start-up of MPA.
type attack struct {
	name   string
	way    direction
	frame  int
	change func(frame []byte, next func() []byte) [][]byte
}

// middleman passes the TCP connection of an RDMA connection on, frame by frame.
type middleman struct {
	t      testing.TB
	attack *attack

	mu     sync.Mutex
	frames [2]int       // seen
	script [2]int       // seen when the last read of the session returned
	tagged [2][]bool    // of each frame: an RDMA write
	bytes  bytes.Buffer // all of both directions
	done   bool         // the attack was carried out
}

// serve passes one connection on.
func (m *middleman) serve(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	var wg sync.WaitGroup
	for way, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			defer client.Close()
			defer server.Close()
			m.pass(direction(way), ends[0], ends[1])
		})
	}
	wg.Wait()
}

// pass passes the frames of one direction on.
func (m *middleman) pass(way direction, from io.Reader, to io.Writer) {
	next := func() []byte { return m.read(way, from) }
	for {
		frame := next()
		if frame == nil {
			return
		}
		list := [][]byte{frame}
		m.mu.Lock()
		a, number := m.attack, m.frames[way]-1
		if a != nil && a.way == way && a.frame == number {
			m.done = true
			m.mu.Unlock()
			list = a.change(frame, next)
		} else {
			m.mu.Unlock()
		}
		for _, f := range list {
			if f == nil {
				return // the end of the connection
			}
			if _, err := to.Write(f); err != nil {
				return
			}
		}
	}
}

// read reads the next frame of one direction, nil at the end.
func (m *middleman) read(way direction, from io.Reader) []byte {
	m.mu.Lock()
	first := m.frames[way] == 0
	m.mu.Unlock()
	b := readFrame(from, first)
	if b == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames[way]++
	m.tagged[way] = append(m.tagged[way], !first && b[2]&taggedBit != 0)
	m.bytes.Write(b)
	return b
}

// readFrame reads a frame, nil at the end. The first one of a direction is the start-up of MPA.
func readFrame(from io.Reader, first bool) []byte {
	size := mpaLength
	if first {
		size = mpaStartSize
	}
	b := make([]byte, size, 64<<10)
	if _, err := io.ReadFull(from, b); err != nil {
		return nil
	}
	rest := int(binary.BigEndian.Uint16(b[len(b)-2:]))
	if !first {
		rest += -(mpaLength+rest)&3 + crcSize
	}
	b = append(b, make([]byte, rest)...)
	if _, err := io.ReadFull(from, b[size:]); err != nil {
		return nil
	}
	return b
}

// sum makes the CRC of a changed frame right.
func sum(frame []byte, start bool) []byte {
	if !start {
		end := len(frame) - crcSize
		binary.LittleEndian.PutUint32(frame[end:], crc32.Checksum(frame[:end], crc32.MakeTable(crc32.Castagnoli)))
	}
	return frame
}

// payloadAt returns the place of the payload of a frame.
func payloadAt(frame []byte) int {
	if frame[2]&taggedBit != 0 {
		return mpaLength + taggedHeader
	}
	return mpaLength + otherHeader
}

// passer passes an RDMA connection on to the address of the server.
type passer interface {
	serve(client net.Conn, target string)
}

// viaMiddleman is iWARP by which the client connects to the middleman instead of the server.
type viaMiddleman struct {
	rdma.Provider
	m passer
}

func (p viaMiddleman) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return middleAdapter{a, p.m}, err
}

type middleAdapter struct {
	rdma.Adapter
	m passer
}

func (a middleAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	return middleConnector{c, a.m}, err
}

type middleConnector struct {
	rdma.Connector
	m passer
}

func (c middleConnector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, limits rdma.ReadLimits, private []byte) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.m.serve(conn, remote.AddrPort.String())
	}()
	here := rdma.IPAddr(remote.Fabric, l.Addr().(*net.TCPAddr).AddrPort())
	if err := c.Connector.Connect(ctx, qp, here, limits, private); err != nil {
		l.Close() // there may be no connection to accept
		return err
	}
	return nil
}

// secret is in the data of a session.
var secret = []byte("pay 10 to alice, and tell no other peer about it")

// sessionData is the data that a session writes and reads.
func sessionData() []byte { return append(bytes.Repeat(secret, 100), random(90_000, 3)...) }

// errWrongData is the result of a session that read other data than it wrote.
var errWrongData = errors.New("wrong data")

// runSession dials a server through a middleman, writes a file, reads it in long, short and vectored
// reads, and compares.
func runSession(s *lwiotest.Server, m *middleman, sealed bool, timeout time.Duration) error {
	ctx := context.Background()
	c, err := lwio.Dial(ctx, s.URL(), &lwio.Config{
		Providers: []rdma.Provider{viaMiddleman{iwarp.New(nil), m}}, RequireRDMA: true, RequireEncryption: sealed,
		Timeout: timeout, ReconnectTimeout: -1,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.Create(ctx, "f")
	if err != nil {
		return err
	}
	defer f.Close()
	want := sessionData()
	if _, err := f.WriteAt(want, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(want[:10], 0); err != nil {
		return err
	}
	got, small, tiny := make([]byte, len(want)), make([]byte, 700), make([]byte, 9)
	for _, p := range [][]byte{got, small, tiny} {
		if n, err := f.ReadAt(p, 0); err != nil || n != len(p) {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if !bytes.Equal(p, want[:len(p)]) {
			return errWrongData
		}
	}
	segs := [][]byte{make([]byte, 4096), make([]byte, 4096), make([]byte, 100)}
	if _, err := f.ReadVec(ctx, segs, 0); err != nil {
		return err
	}
	if !bytes.Equal(bytes.Join(segs, nil), want[:8292]) {
		return errWrongData
	}
	m.mu.Lock()
	m.script = m.frames // the frames of the end of the connection are not attacked
	m.mu.Unlock()
	_, err = f.ReadAt(tiny, 0) // notices an attack on the last of these frames
	return err
}

// undisturbed runs a session without an attack and returns its middleman.
func undisturbed(t *testing.T, s *lwiotest.Server, sealed bool) *middleman {
	t.Helper()
	m := &middleman{t: t}
	if err := runSession(s, m, sealed, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	return m
}

// A listener on the path finds no data, no names of messages and no repetition in a sealed connection,
// and all of it in a plain one.
//
// Source: [OP-114b]
func TestSealedConnectionShowsNoData(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{iwarp.New(nil)}})
	for _, sealed := range []bool{false, true} {
		m := undisturbed(t, s, sealed)
		m.mu.Lock()
		shown := bytes.Contains(m.bytes.Bytes(), secret[:16])
		m.mu.Unlock()
		if shown == sealed {
			t.Errorf("sealed %v: the data is shown: %v", sealed, shown)
		}
	}
}

// A client on a sealed connection busy-polls for its answers in mode Polling, and the data of reads
// around the size that is copied is right.
//
// Source: [OP-114b]
func TestSealedConnectionPolls(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{iwarp.New(nil)}})
	ctx := t.Context()
	c, err := lwio.Dial(ctx, s.URL(), &lwio.Config{
		Providers: []rdma.Provider{iwarp.New(nil)}, RequireRDMA: true, RequireEncryption: true, Completion: lwio.Polling,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Create(ctx, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := random(20_000, 4)
	if _, err := f.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 16, 17, 1023, 1024, 8191, 8192, 8193, len(want)} {
		p := make([]byte, n)
		if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, want[:n]) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if st := c.Stats(); st.Polled == 0 || st.Interrupts != 0 {
		t.Errorf("%d answers to calls that busy-polled, %d to others", st.Polled, st.Interrupts)
	}
}

// attacksOn returns the attacks on a frame.
func attacksOn(way direction, frame int) []attack {
	start := frame == 0
	flip := func(bit byte, at func(f []byte) int) func([]byte, func() []byte) [][]byte {
		return func(f []byte, _ func() []byte) [][]byte {
			f[at(f)] ^= bit
			return [][]byte{sum(f, start)}
		}
	}
	last := func(f []byte) int {
		if start {
			return len(f) - 1
		}
		return mpaLength + int(binary.BigEndian.Uint16(f)) - 1
	}
	list := []attack{
		{"flip the last byte", way, frame, flip(0x04, last)},
		{"drop", way, frame, func([]byte, func() []byte) [][]byte { return nil }},
		{"repeat", way, frame, func(f []byte, _ func() []byte) [][]byte { return [][]byte{f, f} }},
		{"swap with the next", way, frame, func(f []byte, next func() []byte) [][]byte { return [][]byte{next(), f} }},
		{"cut off", way, frame, func(f []byte, _ func() []byte) [][]byte { return [][]byte{f[:len(f)/2], nil} }},
	}
	if start {
		return list
	}
	return append(list,
		attack{"flip the first byte", way, frame, flip(0x04, payloadAt)},
		attack{"flip the last-segment bit", way, frame, flip(lastBit, func([]byte) int { return mpaLength })},
		attack{"flip the opcode", way, frame, flip(0x04, func([]byte) int { return mpaLength + 1 })},
		attack{"flip the unused field", way, frame, flip(0x04, func([]byte) int { return mpaLength + 5 })}, // or the steering tag
		attack{"flip the place", way, frame, flip(0x04, func(f []byte) int { return payloadAt(f) - 1 })},
		attack{"shorten", way, frame, func(f []byte, _ func() []byte) [][]byte {
			n := int(binary.BigEndian.Uint16(f))
			if n < payloadAt(f) {
				return [][]byte{f}
			}
			n--
			f = f[:mpaLength+n+(-(mpaLength+n))&3]
			clear(f[mpaLength+n:])
			binary.BigEndian.PutUint16(f, uint16(n))
			return [][]byte{sum(append(f, 0, 0, 0, 0), false)}
		}})
}

// A middleman that changes, drops, repeats, swaps or shortens any frame of a sealed session, with a
// right CRC, ends it with an error at the client, and the server counts an error. No session
// reads wrong data. An RDMA write that is repeated, or that changes places with another, leaves the same
// bytes: then the session may succeed, with the right data. The server has no connection before the first
// two frames of the client have arrived.
//
// Source: [OP-114b]
func TestMiddlemanOnSealedConnectionIsNoticed(t *testing.T) {
	newServer := func(t *testing.T) *lwiotest.Server {
		return lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{iwarp.New(nil)}})
	}
	seen := undisturbed(t, newServer(t), true)
	var attacks []attack
	for way := toServer; way <= toClient; way++ {
		for frame := range seen.script[way] {
			attacks = append(attacks, attacksOn(way, frame)...)
		}
	}
	step := 1
	if testing.Short() || raceEnabled {
		step = 4 // the attacks on a frame are an odd number, so each kind has its turn
	}
	// An attack that is noticed by a time limit only waits, so several run at the same time.
	const workers = 4
	for worker := range workers {
		t.Run(strconv.Itoa(worker), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			for i := worker * step; i < len(attacks); i += workers * step {
				attackSession(t, s, &attacks[i])
			}
		})
	}
}

// attackSession runs a sealed session with an attack, and checks that both sides notice it, or that it
// changes no byte. The server has no other session.
func attackSession(t *testing.T, s *lwiotest.Server, a *attack) {
	t.Helper()
	m := &middleman{t: t, attack: a}
	before := serverErrors(s)
	err := runSession(s, m, true, 400*time.Millisecond)
	waitUntil(t, func() bool { return s.Server.Stats().Connections == 0 })
	m.mu.Lock()
	// A session may need fewer frames than the undisturbed one.
	attacked, done, harmless := m.done, m.done && a.frame < m.script[a.way], harmless(a, m.tagged[a.way])
	m.mu.Unlock()
	switch {
	case errors.Is(err, errWrongData):
		t.Errorf("%s, %v, frame %d: wrong data", a.name, a.way, a.frame)
	case err == nil && done && !harmless:
		t.Errorf("%s, %v, frame %d: not noticed", a.name, a.way, a.frame)
	case err != nil && attacked && !harmless && serverErrors(s) == before && (a.way == toClient || a.frame > 1):
		t.Errorf("%s, %v, frame %d: not noticed by the server; the client: %v", a.name, a.way, a.frame, err)
	}
}

// serverErrors returns the number of RDMA connections that ended in an error at the server.
func serverErrors(s *lwiotest.Server) uint64 {
	st := s.Server.Stats()
	return st.Cut + st.Lost + st.AuthFailures
}

// harmless reports whether an attack may leave all messages and all data as they were. The start-up of
// MPA and the empty frame behind it carry limits that no side uses. RDMA writes have no order until the
// answer that follows them, their end has no meaning, and a repeated one writes the same bytes. The byte
// that a shorter one leaves out may have its value already.
func harmless(a *attack, tagged []bool) bool {
	isTagged := func(frame int) bool { return frame < len(tagged) && tagged[frame] }
	if a.way == toServer && a.frame <= 1 {
		return true
	}
	switch a.name {
	case "flip the unused field":
		return !isTagged(a.frame)
	case "swap with the next":
		return isTagged(a.frame) || isTagged(a.frame+1)
	case "repeat", "shorten", "flip the last-segment bit":
		return isTagged(a.frame)
	}
	return false
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happened")
		}
	}
}
