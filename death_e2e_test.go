package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// faultClient is a way to use a server by connections of given lives.
type faultClient struct {
	t       *testing.T
	srv     *lwiotest.Server
	timeout time.Duration // of each call
	n       int
}

// play dials, writes and reads and closes, and returns the first error: of the
// dialling, or of a later call. The result of a call without error must be right.
func (m *faultClient) play(smb, iw *faultconn.Dialer) (dial, later error) {
	m.t.Helper()
	m.n++
	name := fmt.Sprintf("f%08d", m.n) // its own: a write that was given up may be applied yet
	path := filepath.Join(m.srv.Dir, name)
	if err := os.WriteFile(path, make([]byte, 1400), 0o600); err != nil {
		m.t.Fatal(err)
	}
	cfg := &lwio.Config{RequireRDMA: true, Timeout: m.timeout, DialContext: smb.DialContext}
	cfg.Providers = []rdma.Provider{iwarp.New(&iwarp.Config{Dial: iw.DialTCP, DrainTimeout: m.timeout})}
	c, err := lwio.Dial(context.Background(), m.srv.URL(), cfg)
	if err != nil {
		return err, nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	f, err := c.OpenFile(ctx, name, os.O_RDWR, 0)
	cancel()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := bytes.Repeat(fmt.Appendf(nil, "life %08d ", m.n), 100)
	_, later = f.WriteAt(data, 0)
	got := make([]byte, len(data))
	switch _, err := f.ReadAt(got, 0); {
	case later == nil && err == nil && !bytes.Equal(got, data):
		m.t.Fatalf("%.40q was read instead of %.40q", got, data)
	case later == nil:
		later = err
	}
	if err := f.Sync(context.Background()); later == nil {
		later = err
	}
	if onDisk, err := os.ReadFile(path); later == nil && (err != nil || !bytes.Equal(onDisk, data)) {
		m.t.Fatalf("%.40q is in the file instead of %.40q", onDisk, data)
	}
	return nil, later
}

// newFaultClient starts a server, and finds out how many bytes an undisturbed client
// moves over both of its connections.
func newFaultClient(t *testing.T) (m *faultClient, smb, iw *faultconn.Dialer) {
	t.Helper()
	m = &faultClient{t: t, srv: lwiotest.NewServer(t, nil), timeout: faultPatience}
	smb, iw = &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}, &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	if dial, later := m.play(smb, iw); dial != nil || later != nil {
		t.Fatal(dial, later)
	}
	if smb.Sent() < 1000 || smb.Received() < 1000 || iw.Sent() < 1000 || iw.Received() < 1000 {
		t.Fatalf("%d, %d, %d and %d bytes", smb.Sent(), smb.Received(), iw.Sent(), iw.Received())
	}
	return m, smb, iw
}

// lives are connections that die, or freeze, on the way to n bytes sent and m received,
// so many each way.
func lives(freeze bool, sent, received int64, each int64) (all []*faultconn.Dialer) {
	for i := range each {
		all = append(all,
			&faultconn.Dialer{SendLimit: i * sent / each, ReceiveLimit: -1, Freeze: freeze},
			&faultconn.Dialer{SendLimit: -1, ReceiveLimit: i * received / each, Freeze: freeze})
	}
	return all
}

// undisturbed demands that the server serves the next client, and has forgotten all dead
// clients.
func (m *faultClient) undisturbed() {
	m.t.Helper()
	m.timeout = faultPatience
	if dial, later := m.play(&faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}, &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}); dial != nil || later != nil {
		m.t.Errorf("the next client: %v, %v", dial, later)
	}
	for end := time.Now().Add(faultPatience); ; time.Sleep(time.Millisecond) {
		st := m.srv.Server.Stats()
		if st.Connections == 0 && st.SMBConnections == 0 && st.Files == 0 && st.Credits == 0 {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("the server still has %+v", st)
		}
	}
}

// The RDMA connection dies at any byte: once it was there, nothing fails, since another
// one takes its place; while it was being made, the client says why it has none.
//
// Source: [LWIO §I/O Processing] [OP-94f] [OP-112]
func TestDeathOfTheChannel(t *testing.T) {
	m, _, full := newFaultClient(t)
	each := int64(60)
	if testing.Short() || raceEnabled {
		each = 10
	}
	refused := 0
	for _, life := range lives(false, full.Sent(), full.Received(), each) {
		switch dial, later := m.play(&faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}, life); {
		case later != nil:
			t.Errorf("dead at %d or %d: %v", life.SendLimit, life.ReceiveLimit, later)
		case dial != nil && !errors.Is(dial, lwio.ErrNoRDMA):
			t.Errorf("dead at %d or %d: dial: %v", life.SendLimit, life.ReceiveLimit, dial)
		case dial != nil:
			refused++
		}
	}
	if refused == 0 || refused == m.n {
		t.Errorf("%d of %d were refused", refused, m.n)
	}
	m.undisturbed()
}

// The SMB connection dies at any byte: once it was there, nothing fails, since another one takes its
// place; while it was being made, the client says why it has none.
//
// Source: [LWIO claim 3] [OP-94f]
func TestDeathOfSMB(t *testing.T) {
	m, full, _ := newFaultClient(t)
	each := int64(100)
	if testing.Short() || raceEnabled {
		each = 10
	}
	refused := 0
	for _, life := range lives(false, full.Sent(), full.Received(), each) {
		dial, later := m.play(life, &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1})
		if dial != nil {
			refused++
		}
		// The keys of RDMA die with the session, before the client may know that it is dead.
		named := errors.Is(dial, net.ErrClosed) || errors.Is(dial, lwio.ErrNoRDMA)
		if later != nil || dial != nil && (errors.Is(dial, context.DeadlineExceeded) || !named) {
			t.Errorf("dead at %d or %d: dial: %v; later: %v", life.SendLimit, life.ReceiveLimit, dial, later)
		}
	}
	if refused == 0 || refused == m.n {
		t.Errorf("%d of %d were refused", refused, m.n)
	}
	m.undisturbed()
}

// A connection falls silent at any byte: no call outlasts its time by much.
//
// Source: [OP-110] [OP-113]
func TestSilenceAtAnyByte(t *testing.T) {
	m, smb, iw := newFaultClient(t)
	each := int64(6)
	if testing.Short() || raceEnabled {
		each = 2
	}
	m.timeout = 100 * time.Millisecond
	failed := int64(0)
	check := func(life *faultconn.Dialer, err error) {
		t.Helper()
		if err != nil {
			failed++
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, net.ErrClosed) && !errors.Is(err, lwio.ErrNoRDMA) {
			t.Errorf("silent at %d or %d: %v", life.SendLimit, life.ReceiveLimit, err)
		}
	}
	for _, life := range lives(true, smb.Sent(), smb.Received(), each) {
		dial, later := m.play(life, &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1})
		check(life, errors.Join(dial, later))
	}
	for _, life := range lives(true, iw.Sent(), iw.Received(), each) {
		dial, later := m.play(&faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}, life)
		check(life, errors.Join(dial, later))
	}
	if failed < each {
		t.Errorf("only %d of %d lives noticed", failed, 4*each)
	}
	m.undisturbed()
}
