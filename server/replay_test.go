package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// successor makes a connection that replaces c. c may still be open. inherited reports whether the
// server has the results of c's writes.
func (c *rawClient) successor(mutate ...func(p *wire.AuthParams)) (next *rawClient, inherited bool) {
	c.t.Helper()
	n := c.v.negotiate(c.v.sess)
	next = c.v.connect(n)
	base := c.sequence
	next.auth(n, authOptions{mutate: func(p *wire.AuthParams) {
		p.PreviousSessionID, p.BaseSequence = &c.sessionID, base
		for _, m := range mutate {
			m(p)
		}
	}})
	if id := next.params.PreviousSessionID; id != nil && *id != c.sessionID {
		c.t.Fatalf("the server names %x, not %x", *id, c.sessionID)
	}
	return next, next.params.PreviousSessionID != nil
}

// again sends a message with an old Sequence.
func (c *rawClient) again(sequence uint16, h wire.Header, body []byte) wire.StatusResponse {
	c.t.Helper()
	now := c.sequence
	c.sequence = sequence
	s := c.call(h, body)
	c.sequence = now
	return s
}

// wantContent demands the content of a file.
func (v *env) wantContent(o *vfs.Open, want string) {
	v.t.Helper()
	b, err := os.ReadFile(filepath.Join(v.dir, o.Path()))
	if err != nil || string(b) != want {
		v.t.Fatalf("the file has %q, %v; want %q", b, err, want)
	}
}

// A write that is replayed after the loss of its connection is performed once. Its answer is repeated,
// and later writes of other clients stay. A replayed write that the server has not received before is
// performed.
//
// Source: [OP-112]
func TestWritesOnceAcrossConnections(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	o := v.file("f", []byte("0000"))
	fid := c.register(o)
	first := c.sequence
	c.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("AA"))
	failed := c.sequence
	c.want(ntstatus.FileClosed, 0, writeHeader(fid+7, 0, 2), []byte("XX"))
	lost := c.sequence
	c.sequence++ // sent, and never arrived

	next, inherited := c.successor()
	if !inherited {
		t.Fatal("the results are missing")
	}
	fid = next.register(o)
	next.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("BB"))
	if s := next.again(first, writeHeader(fid, 0, 2), []byte("AA")); s.Status != 0 || s.Information != 2 {
		t.Errorf("the write sent again: %+v", s)
	}
	v.wantContent(o, "BB00")
	if s := next.again(failed, writeHeader(fid, 0, 2), []byte("XX")); s.Status != uint32(ntstatus.FileClosed) {
		t.Errorf("the failed write sent again: %+v", s)
	}
	if s := next.again(lost, writeHeader(fid, 2, 2), []byte("CC")); s.Status != 0 || s.Information != 2 {
		t.Errorf("the lost write: %+v", s)
	}
	v.wantContent(o, "BBCC")

	// The results of both connections go on to a third.
	own := next.sequence - 1
	third, inherited := next.successor()
	if !inherited {
		t.Fatal("the results are missing a second time")
	}
	fid = third.register(o)
	third.want(ntstatus.Success, 4, writeHeader(fid, 0, 4), []byte("DDDD"))
	for _, sequence := range []uint16{first, lost, own} {
		if s := third.again(sequence, writeHeader(fid, 0, 2), []byte("EE")); s.Status != 0 || s.Information != 2 {
			t.Errorf("write %d sent again: %+v", sequence, s)
		}
	}
	v.wantContent(o, "DDDD")
	if st := v.e.count.snapshot(); st.Replays != 5 || st.SequenceGaps != 0 {
		t.Errorf("%d repeats, %d gaps", st.Replays, st.SequenceGaps)
	}
}

// Results go to the same user, once, in time, and only to a client whose numbers continue.
//
// Source: [OP-112]
func TestReplayResultsGoToTheirUserOnce(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	fid := c.register(v.file("f", []byte("0000")))
	c.want(ntstatus.Success, 1, writeHeader(fid, 0, 1), []byte("A"))
	if _, inherited := c.successor(func(p *wire.AuthParams) { p.BaseSequence = 0 }); inherited {
		t.Error("to a client that numbers from the beginning")
	}
	if _, inherited := c.successor(); inherited {
		t.Error("twice")
	}
	now := time.Now()
	var table replayTable
	table.most = 2
	put := func(n byte, expires time.Time) {
		table.put(replayResults{id: [8]byte{n}, user: "alice", expires: expires})
	}
	take := func(n byte, user string, at time.Time) bool {
		_, ok := table.take([8]byte{n}, user, at)
		return ok
	}
	put(1, now.Add(time.Minute))
	if take(1, "bob", now) || take(1, "alice", now.Add(time.Minute)) || !take(1, "alice", now) || take(1, "alice", now) {
		t.Error("the wrong client gets the results")
	}
	for n := range byte(3) {
		put(n, now.Add(time.Duration(n)*time.Minute))
	}
	if take(0, "alice", now.Add(-time.Hour)) || len(table.kept) != 2 {
		t.Errorf("%d are kept", len(table.kept))
	}
	table.expire(now.Add(time.Minute))
	if len(table.kept) != 1 || !take(2, "alice", now) {
		t.Errorf("%d are kept", len(table.kept))
	}
}

// The cache holds as many results as a client can have lost answers, also where numbers wrap
// around.
//
// Source: [OP-112]
func TestReplayCacheWrapsAround(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{Credits: 4, MaxCredits: 4}})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.BaseSequence = 0xFFFF - 4; p.PreviousSessionID = &[8]byte{9} }})
	fid := c.register(v.file("f", []byte("000000")))
	var sent []uint16
	for i := range 6 {
		sent = append(sent, c.sequence)
		c.want(ntstatus.Success, 1, writeHeader(fid, uint64(i), 1), []byte("A"))
	}
	next, inherited := c.successor()
	if !inherited {
		t.Fatal("the results are missing")
	}
	o := v.file("f", []byte("000000"))
	fid = next.register(o)
	for i, sequence := range sent[2:] {
		if s := next.again(sequence, writeHeader(fid, uint64(2+i), 1), []byte("A")); s.Status != 0 || s.Information != 1 {
			t.Errorf("write %d: %+v", sequence, s)
		}
	}
	v.wantContent(o, "000000")
}

// A number that comes round again is not taken for the old one.
//
// Source: [OP-112]
func TestReplayIgnoresNumbersOfAnOldRound(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	o := v.file("f", []byte("0000"))
	fid := c.register(o)
	old := c.sequence
	c.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("AA"))
	for c.sequence != old { // 65,535 reads
		c.want(ntstatus.Success, 1, c.readHeader(fid, 0, 1, 0), nil)
	}
	c.sequence++ // a write that was sent and never arrived
	next, _ := c.successor()
	fid = next.register(o)
	if s := next.again(old, writeHeader(fid, 2, 2), []byte("BB")); s.Status != 0 || s.Information != 2 {
		t.Errorf("the lost write: %+v", s)
	}
	v.wantContent(o, "AABB")
}

// Inherited results stay until they are asked for, whichever writes are sent and replayed
// meanwhile, and in any order.
//
// Source: [OP-112]
func TestInheritedReplayResultsStay(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{Credits: 4, MaxCredits: 4}})
	c := v.client()
	o := v.file("f", []byte("0000"))
	fid := c.register(o)
	base := c.sequence
	for _, i := range []uint16{3, 2, 1, 0} { // as workers may finish them
		c.sequence = base + i
		c.want(ntstatus.Success, 1, writeHeader(fid, uint64(i), 1), []byte("A"))
	}
	c.sequence = base + 4
	next, _ := c.successor()
	fid = next.register(o)
	for range 9 {
		next.want(ntstatus.Success, 4, writeHeader(fid, 0, 4), []byte("NNNN"))
	}
	for i := range uint16(4) {
		next.again(base+i, writeHeader(fid, uint64(i), 1), []byte("A"))
	}
	v.wantContent(o, "NNNN")
	if n := v.e.count.replays.Load(); n != 4 {
		t.Errorf("%d repeats", n)
	}
}

// With the most credits, the third connection knows the result of a write of the first one. All other
// writes in flight were answered after it, half of them on the second connection, which also
// performed writes of its own.
//
// Source: [OP-112]
func TestReplayCacheCoversAllCredits(t *testing.T) {
	const written = 512
	first := &replayCache{most: MaxCredits}
	for i := range int64(MaxCredits / 2) {
		first.record(replayEntry{number: i})
	}
	second := &replayCache{most: MaxCredits, earlier: first.all(), first: MaxCredits}
	for i := range int64(MaxCredits / 2) {
		second.record(replayEntry{number: MaxCredits/2 + i})
	}
	for i := range int64(written) {
		second.record(replayEntry{number: MaxCredits + i})
	}
	third := &replayCache{earlier: second.all()}
	for i := range int64(MaxCredits + written) {
		if _, ok := third.find(i); !ok {
			t.Fatalf("write %d would be done twice", i)
		}
	}
}

// If the answer to AUTH is lost, the client names the old connection again.
//
// Source: [OP-112]
func TestReplayResultsSurviveLostAuthAnswer(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	fid := c.register(v.file("f", []byte("0000")))
	c.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("AA"))
	next, _ := c.successor()
	next.connector.Close() // as if the answer had not arrived
	eventually(t, "the connection is gone", v.deserted)
	if _, inherited := c.successor(); !inherited {
		t.Error("the results are lost with the answer to AUTH")
	}
}

// The number of results that go from connection to connection is bounded, and a user that
// connects and leaves all the time displaces only results of the same user.
//
// Source: [OP-112]
func TestReplayResultsAreBounded(t *testing.T) {
	r := replayCache{most: 7}
	for i := range int64(10 * maxEarlier) {
		r.record(replayEntry{number: i})
		r.record(replayEntry{number: -1 - i})
	}
	if all := r.all(); len(all) != maxEarlier || all[maxEarlier-1].number != 10*maxEarlier-1 || len(r.own) != 7 || len(r.earlier) != maxEarlier {
		t.Errorf("%d in all, %d own, %d earlier", len(all), len(r.own), len(r.earlier))
	}
	table := replayTable{most: 1000}
	now := time.Now()
	table.put(replayResults{user: "alice", id: [8]byte{1}, expires: now.Add(time.Minute)})
	for range 2000 {
		table.put(replayResults{user: "bob", expires: now.Add(time.Minute)})
	}
	if _, ok := table.take([8]byte{1}, "alice", now); !ok || len(table.kept) != keptPerUser {
		t.Errorf("%t, %d are kept", ok, len(table.kept))
	}
}

// A copied AUTH does not end the connection that it names.
//
// Source: [OP-46c] [OP-112]
func TestCopiedAuthReplacesNoConnection(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	n := v.negotiate(v.sess)
	msg, _ := v.connect(n).authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.PreviousSessionID = &c.sessionID }})
	v.connect(n).wantDenied(msg)
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0xFFFF), nil)
}

// An AUTH that names a connection and is then refused does not lose its results.
//
// Source: [OP-42b] [OP-112]
func TestRefusedAuthKeepsReplayResults(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{ConnectionsPerKey: 1}})
	c := v.client()
	fid := c.register(v.file("f", []byte("0000")))
	c.want(ntstatus.Success, 2, writeHeader(fid, 0, 2), []byte("AA"))
	full := v.negotiate(v.sess)
	v.connect(full).auth(full, authOptions{})
	refused := v.connect(full)
	msg, _ := refused.authMessage(full, authOptions{mutate: func(p *wire.AuthParams) {
		p.PreviousSessionID, p.BaseSequence = &c.sessionID, c.sequence
	}})
	refused.raw(msg)
	if s := refused.reply(); s.Status == 0 {
		t.Fatalf("AUTH: %+v", s)
	}
	refused.wantCut()
	eventually(t, "only the other connection is left", func() bool { return v.e.count.connections.Load() == 1 })
	if _, inherited := c.successor(); !inherited {
		t.Error("the results are lost with the refused connection")
	}
}
