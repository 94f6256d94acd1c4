package lwiotest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/internal/test/filemodel"
	"lwio/internal/test/leakcheck"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/server"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// TestFileMatchesModel runs random operations on a file by one or two clients, and compares the
// file with its model. It draws the transport, sizes, memory, completion and credits. Calls and
// batches run concurrently and one after another; a batch may have operations over SMB and over
// RDMA, and a Sync at the same time. Callers give up, connections break, and ranges of the file
// are locked. -rapid.checks sets the number of runs, -rapid.seed repeats one.
//
// Source: [LWIO §Read], [LWIO §Write], [LWIO §Credits], [OP-92d], [OP-112], [OP-113], [OP-115]
func TestFileMatchesModel(t *testing.T) {
	fabrics := []string{lwio.TransportSMB}
	for _, p := range lwio.DefaultProviders() {
		fabrics = append(fabrics, p.Name())
	}
	for _, fabric := range fabrics {
		if raceEnabled {
			break // all of them mixed take long enough
		}
		t.Run(fabric, func(t *testing.T) { playAll(t, rapid.Just(fabric)) })
	}
	t.Run("mixed", func(t *testing.T) { playAll(t, rapid.SampledFrom(fabrics)) })
}

// playAll does all runs of a test. It prints the history of the first one that fails: rapid prints only one that it could
// make fail again.
func playAll(t *testing.T, fabrics *rapid.Generator[string]) {
	var first sync.Once
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{file: filemodel.New(), faults: new(faults), begun: time.Now()}
		defer func() {
			if rt.Failed() {
				first.Do(func() { t.Logf("the first run that failed:\n%s", strings.Join(w.journal, "\n")) })
			}
		}()
		w.play(rt, fabrics)
	})
}

// fileName is the file of all operations.
const fileName = "file"

// world is a server and its clients, and the model of the file that all have open.
type world struct {
	srv       *lwiotest.Server
	file      *filemodel.File
	limits    server.Limits
	faults    *faults // of the server's side
	clients   []*client
	serial    int  // of writes
	group     int  // of operations that are done at once
	impatient bool // messages may be lost, and calls have short timeouts
	neighbour bool // another client is busy beside the next operations
	memories  []*memory
	history   []filemodel.Write
	stall     atomic.Int32 // of a slow disk
	locks     []heldLock
	begun     time.Time
	journal   []string // the steps of the run so far
}

// logf adds a line to the journal of the run, and to the output of the run.
func (w *world) logf(rt *rapid.T, format string, args ...any) {
	rt.Helper()
	line := fmt.Sprintf(format, args...)
	w.journal = append(w.journal, fmt.Sprintf("%8v %s", time.Since(w.begun).Round(time.Microsecond), line))
	rt.Log(line)
}

// fatalf ends the run, which has failed.
func (w *world) fatalf(rt *rapid.T, format string, args ...any) {
	rt.Helper()
	w.logf(rt, format, args...)
	rt.Fatalf(format, args...)
}

// play is one run of the model.
func (w *world) play(rt *rapid.T, fabrics *rapid.Generator[string]) {
	w.impatient = rapid.IntRange(0, 7).Draw(rt, "impatient") == 7
	dir, err := os.MkdirTemp("", "lwio-model")
	if err != nil {
		w.fatalf(rt, "%v", err)
	}
	defer os.RemoveAll(dir)
	w.serve(rt, dir)
	defer w.srv.Close()
	for range rapid.IntRange(1, 2).Draw(rt, "clients") {
		k := &client{w: w, fabric: fabrics.Draw(rt, "fabric"), faults: new(faults)}
		w.clients = append(w.clients, k)
		k.configure(rt)
		defer func() {
			if k.c != nil {
				k.c.Close()
			}
		}()
		k.dial(rt)
	}
	rt.Repeat(map[string]func(*rapid.T){
		"one":       func(rt *rapid.T) { w.together(rt, 1, 1) },
		"one more":  func(rt *rapid.T) { w.together(rt, 1, 1) },
		"at once":   func(rt *rapid.T) { w.together(rt, 2, 5) },
		"overtake":  w.overtake,
		"truncate":  w.truncate,
		"sync":      w.sync,
		"stat":      w.stat,
		"reopen":    func(rt *rapid.T) { w.some(rt).reopen(rt) },
		"redial":    func(rt *rapid.T) { w.some(rt).redial(rt) },
		"try lock":  w.tryLock,
		"lock":      w.waitForLock,
		"unlock":    w.unlockSome,
		"fault":     w.fault,
		"cut SMB":   w.cutSMB,
		"neighbour": func(*rapid.T) { w.neighbour = true },
		"":          w.untouched,
	})
	w.finish(rt)
}

// serve starts the server.
func (w *world) serve(rt *rapid.T, dir string) {
	some := rapid.SampledFrom[[]int]
	w.limits = server.Limits{
		Credits: some([]int{0, 1, 2, 3, 8}).Draw(rt, "credits of the server"), MaxCredits: some([]int{0, 1, 5, 64}).Draw(rt, "at most"),
		CreditBudget:      some([]int{0, 4, 9}).Draw(rt, "budget"),
		MaxRecvBufferSize: some([]int{0, 4 << 10, 8 << 10, 256 << 10}).Draw(rt, "receive buffer"),
		MaxRDMAWindowSize: some([]int{0, 64 << 10, 1 << 20}).Draw(rt, "window"),
		// With 1, a second file of a connection goes over SMB.
		FilesPerConnection: some([]int{0, 1}).Draw(rt, "files"),
	}
	opts := &lwiotest.Config{Dir: dir, Limits: w.limits}
	w.logf(rt, "limits of the server: %+v, impatient clients: %v", w.limits, w.impatient)
	if rapid.Bool().Draw(rt, "slow disk") {
		disk, err := posix.OpenDir(dir)
		if err != nil {
			w.fatalf(rt, "%v", err)
		}
		opts.Backend = slowDisk{disk, &w.stall}
	}
	for _, p := range lwio.DefaultProviders() {
		opts.Providers = append(opts.Providers, fault.Wrap(p, &fault.Config{Fault: w.faults.decide}))
	}
	var err error
	if w.srv, err = lwiotest.Start(opts); err != nil {
		w.fatalf(rt, "%v", err)
	}
	w.srv.Dir = dir
}

// some is one of the clients.
func (w *world) some(rt *rapid.T) *client {
	return w.clients[rapid.IntRange(0, len(w.clients)-1).Draw(rt, "client")]
}

// client is a client that has the file open.
type client struct {
	w      *world
	fabric string
	cfg    lwio.Config
	faults *faults // of its side
	link   *faultconn.Link
	// unbuffered opens the file for WriteSame.
	unbuffered bool

	c       *lwio.Client
	f       *lwio.File
	second  *lwio.File     // another open of the file, which the server keeps on SMB; or nil
	buf     *lwio.Buffer   // or nil
	spoiled []*lwio.Buffer // their contents are unknown
	used    int            // bytes of buf, by the operations that are being prepared
	before  uint64         // connections lost before the last operations
	lost    uint64         // and after them
	logons  uint64         // SMB sessions that replaced a lost one, before the last operations
}

// String names the client and counts its lost connections.
func (k *client) String() string {
	return fmt.Sprintf("%s %p (%d lost, before %d)", k.fabric, k, k.lost, k.before)
}

// patient is the time for which a patient client waits until a lost connection is replaced.
const patient = time.Minute

// configure draws the Config.
func (k *client) configure(rt *rapid.T) {
	some := rapid.SampledFrom[[]int]
	k.cfg = lwio.Config{
		SMBOnly: k.fabric == lwio.TransportSMB, Timeout: time.Minute,
		Credits: some([]int{0, 1, 2, 7}).Draw(rt, "credits of the client"), MaxReadSize: some([]int{0, 4 << 10, 100_000}).Draw(rt, "read size"),
		MaxRDMAWindowSize: some([]int{0, 512, 10_000}).Draw(rt, "window of the client"),
		ReconnectTimeout:  time.Duration(some([]int{int(patient), 1, -1}).Draw(rt, "reconnect")),
		CopyThreshold:     some([]int{0, 1, 8 << 10}).Draw(rt, "small read"), Completion: lwio.CompletionMode(some([]int{0, 1, 2}).Draw(rt, "completion")),
	}
	if k.w.impatient {
		k.cfg.Timeout = 100 * time.Millisecond
	}
	k.link = new(faultconn.Link)
	k.cfg.DialContext = k.link.DialContext
	k.unbuffered = rapid.Bool().Draw(rt, "unbuffered")
	shuffle := some([]int{0, 0, 0, 1, 2}).Draw(rt, "shuffle")
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == k.fabric {
			k.cfg.RequireRDMA = k.w.limits.FilesPerConnection == 0 && rapid.Bool().Draw(rt, "require RDMA")
			k.cfg.Providers = []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: k.faults.decide, Shuffle: uint64(shuffle)})}
		}
	}
	c := &k.cfg
	k.w.logf(rt, "%s: credits %d, read size %d, window %d, reconnects within %v, copies up to %d, completion %v, requires RDMA %v, unbuffered %v, shuffles %d",
		k, c.Credits, c.MaxReadSize, c.MaxRDMAWindowSize, c.ReconnectTimeout, c.CopyThreshold, c.Completion, c.RequireRDMA, k.unbuffered, shuffle)
}

// dial connects and opens the file, without faults.
func (k *client) dial(rt *rapid.T) {
	k.quiet()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for err := k.connect(ctx); err != nil; err = k.connect(ctx) {
		if !k.w.impatient || ctx.Err() != nil {
			k.w.fatalf(rt, "%v", err)
		}
		k.cfg.Timeout *= 2 // a busy machine takes longer than an impatient client waits
	}
	k.before, k.lost, k.logons = 0, 0, 0
	k.link.Forget()
}

// connect is one attempt of dial.
func (k *client) connect(ctx context.Context) error {
	c, err := lwio.Dial(ctx, k.w.srv.URL(), &k.cfg)
	if err != nil {
		return err
	}
	f, err := c.OpenFile(ctx, fileName, k.flags(os.O_CREATE), 0)
	if err == nil {
		if got := f.Transport(); got.Name == k.fabric {
			k.c, k.f = c, f
			err = k.openSecond(ctx)
		} else {
			err = fmt.Errorf("transport %v instead of %s", got, k.fabric)
		}
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// flags are the flags of an open.
func (k *client) flags(flag int) int {
	if k.unbuffered {
		flag |= lwio.Unbuffered
	}
	return os.O_RDWR | flag
}

// openSecond opens the file again, after the first open is registered, if the server takes one file
// for each connection.
func (k *client) openSecond(ctx context.Context) error {
	k.second = nil
	if k.cfg.SMBOnly || k.w.limits.FilesPerConnection != 1 {
		return nil
	}
	one := make([]byte, 1)
	_, _ = k.f.ReadAtContext(ctx, one, 0) // the byte may be locked
	f, err := k.c.OpenFile(ctx, fileName, k.flags(0), 0)
	if err != nil {
		return err
	}
	k.second = f
	_, _ = f.ReadAtContext(ctx, one, 0)
	return nil
}

// file is one of the client's files.
func (k *client) file(rt *rapid.T) *lwio.File {
	if k.second != nil && rapid.Bool().Draw(rt, "second") {
		return k.second
	}
	return k.f
}

// reopen closes the file and opens it again. No earlier write takes effect after that.
func (k *client) reopen(rt *rapid.T) {
	k.quiet()
	k.close(rt)
	if k.c.Stats().Lost > 0 && k.cfg.RequireRDMA && k.cfg.ReconnectTimeout != patient {
		k.redial(rt)
		return
	}
	flag := k.flags(rapid.SampledFrom([]int{0, os.O_SYNC, os.O_CREATE | os.O_TRUNC}).Draw(rt, "flag"))
	f, err := k.c.OpenFile(context.Background(), fileName, flag, 0)
	k.w.logf(rt, "%s: open with %#x: %v", k, flag, err)
	if err != nil {
		if !k.w.impatient {
			k.w.fatalf(rt, "%v", err)
		}
		if flag&os.O_TRUNC != 0 {
			k.w.file.Truncate(0, false, filemodel.Late, &owner{client: k, group: k.w.group})
		}
		k.redial(rt)
		return
	}
	if k.f = f; flag&os.O_TRUNC != 0 {
		k.w.file.Truncate(0, true, filemodel.Not, nil)
	}
	if err := k.openSecond(context.Background()); err != nil {
		if !k.w.impatient {
			k.w.fatalf(rt, "%v", err)
		}
		k.redial(rt)
	}
}

// quiet disarms the faults of the client.
func (k *client) quiet() {
	k.link.Judge(nil)
	k.faults.disarm()
	k.w.faults.disarm()
}

// close closes the client's files.
func (k *client) close(rt *rapid.T) {
	for _, f := range []*lwio.File{k.f, k.second} {
		if f == nil {
			continue
		}
		err := f.Close()
		if errors.Is(err, fs.ErrClosed) {
			continue
		}
		if err != nil && !k.w.impatient {
			k.w.fatalf(rt, "%v", err)
		}
		k.w.logf(rt, "%s: close: %v", k, err)
		k.w.lockless(f, err == nil)
		if err == nil {
			k.w.synced(f)
		}
	}
}

// redial ends the session and begins another.
func (k *client) redial(rt *rapid.T) {
	k.quiet()
	k.close(rt)
	k.freeBuffers()
	if err := k.c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !k.w.impatient {
		k.w.fatalf(rt, "%v", err)
	}
	k.dial(rt)
	k.w.logf(rt, "%s: dialed again", k)
}

// fault arms a fault.
func (w *world) fault(rt *rapid.T) {
	at := w.side(rt)
	t := trap{left: rapid.OneOf(rapid.IntRange(0, 2), rapid.IntRange(0, 30)).Draw(rt, "requests before")}
	kinds := []string{"delay", "cut", "fail"}
	if w.impatient {
		kinds = append(kinds, "drop")
	}
	kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
	switch kind {
	case "delay":
		t.act = fault.Delay(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "µs")) * time.Microsecond)
	case "cut":
		t.act = fault.Cut()
	case "fail":
		t.act = fault.Fail(rdma.StatusInsufficientResources)
	case "drop":
		t.act, t.sendsOnly = fault.Drop(), true
	}
	w.logf(rt, "fault after %d requests, at the server: %v: %s", t.left, at == w.faults, kind)
	at.arm(t)
}

// cutSMB breaks the SMB connection of a client that waits for another one: now, or at one of the next
// messages, before or after the server has done it.
func (w *world) cutSMB(rt *rapid.T) {
	k := w.some(rt)
	if k.cfg.ReconnectTimeout != patient {
		return
	}
	left := rapid.IntRange(-1, 6).Draw(rt, "messages before")
	fate := rapid.SampledFrom([]faultconn.Fate{faultconn.LoseRequest, faultconn.LoseResponse}).Draw(rt, "fate")
	w.logf(rt, "%s: SMB is cut after %d messages, %v", k, left, fate)
	if left < 0 {
		k.link.Cut()
		return
	}
	k.link.Judge(func(uint16) faultconn.Fate {
		if left--; left == -1 {
			return fate
		}
		return faultconn.Pass
	})
}

// lostSMB reports whether an SMB connection broke that was not replaced before the last operations.
func (k *client) lostSMB() bool { return uint64(k.link.Breaks()) > k.logons }

// finish closes the clients and the server, and checks the file on disk.
func (w *world) finish(rt *rapid.T) {
	for _, k := range w.clients {
		k.quiet()
		k.close(rt)
		if err := k.c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !w.impatient {
			w.fatalf(rt, "%v", err)
		}
		k.freeBuffers()
	}
	w.untouched(rt)
	if err := w.srv.Close(); err != nil {
		w.fatalf(rt, "%v", err)
	}
	w.file.Settle(func(any) bool { return true })
	content, err := os.ReadFile(filepath.Join(w.srv.Dir, fileName))
	if err != nil {
		w.fatalf(rt, "%v", err)
	}
	if err := w.file.Check(filemodel.Read{Data: content, EOF: true}); err != nil {
		w.fatalf(rt, "on disk: %v", err)
	}
}
