package server

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sampleReplay returns a table with the results of two connections.
func sampleReplay(now time.Time) *replayTable {
	t := &replayTable{most: 10}
	t.put(replayResults{id: [8]byte{1}, user: "alice", next: 70000, expires: now.Add(time.Second).Round(0), all: []replayEntry{
		{69998, 4096, ntstatus.Success}, {69999, 0, ntstatus.DiskFull},
	}})
	t.put(replayResults{id: [8]byte{2}, user: "bob", next: 1, expires: now.Add(time.Minute).Round(0), all: []replayEntry{}})
	return t
}

// The results of writes go to the next server, once, and without those whose time is over.
//
// Source: [OP-112]
func TestReplayResultsOutliveStop(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	want := sampleReplay(now)
	if err := want.save(dir, now); err != nil {
		t.Fatal(err)
	}
	got := &replayTable{most: 10}
	if err := got.load(dir, now); err != nil || len(got.kept) != 2 {
		t.Fatalf("%+v, %v", got.kept, err)
	}
	for i := range got.kept {
		if !got.kept[i].expires.Equal(want.kept[i].expires) {
			t.Errorf("connection %d expires at %v, want %v", i, got.kept[i].expires, want.kept[i].expires)
		}
		got.kept[i].expires = want.kept[i].expires
	}
	if !reflect.DeepEqual(got.kept, want.kept) {
		t.Errorf("%+v, want %+v", got.kept, want.kept)
	}
	again := &replayTable{most: 10}
	if err := again.load(dir, now); err != nil || len(again.kept) != 0 {
		t.Errorf("a second time: %+v, %v", again.kept, err)
	}
	late := now.Add(10 * time.Second)
	if err := want.save(dir, late); err != nil {
		t.Fatal(err)
	}
	if err := again.load(dir, late); err != nil || len(again.kept) != 1 || again.kept[0].user != "bob" {
		t.Errorf("after the time of one: %+v, %v", again.kept, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// A write over RDMA whose answer the client did not get from a server that is stopped is done once: the next
// server has its result, and does a write that did not arrive.
//
// Source: [OP-56], [OP-112]
func TestWritesOnceAcrossStop(t *testing.T) { onEach(t, testWritesOnceAcrossStop) }

func testWritesOnceAcrossStop(t *testing.T, on string) {
	state := filepath.Join(t.TempDir(), "state")
	s := newSurvivor(t, on, Config{StateDir: state})
	done := s.rdma.sequence
	s.rdma.want(ntstatus.Success, 2, writeHeader(s.fid, 0, 2), []byte("AA"))
	lost := s.rdma.sequence
	if err := s.s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.rdma.wantCut()
	if err := os.WriteFile(filepath.Join(s.dir, "f"), []byte("BB"), 0o600); err != nil { // by another program
		t.Fatal(err)
	}
	next, addr, _ := newServer(t, context.Background(), Config{StateDir: state, Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{providers[on]()}}, s.dir)
	<-next.Ready()
	s.smb = dialSMB(t, addr, 1, s.smb.session)
	s.smb.connect("share")
	s.file = s.smb.reclaim(s.file, 1)
	n := s.negotiate([16]byte{1})
	c := s.v.connect(n)
	previous := s.rdma.sessionID
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.PreviousSessionID, p.BaseSequence = &previous, lost }})
	if id := c.params.PreviousSessionID; id == nil || *id != previous {
		t.Fatal("the next server does not have the results")
	}
	params := wire.FIDParams{ResumeKey: s.key, SessionID: c.sessionID}
	fid := uint16(c.call(wire.NewRegister(), params.AppendTo(nil)).Information)
	for _, x := range []struct {
		sequence uint16
		at       uint64
	}{{done, 0}, {lost, 2}} {
		if r := c.again(x.sequence, writeHeader(fid, x.at, 2), []byte("CC")); r.Status != 0 || r.Information != 2 {
			t.Errorf("write %d again: %+v", x.sequence, r)
		}
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "f")); string(got) != "BBCC" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// A file that is not whole gives no result, and is removed.
func TestDamagedReplayResults(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if err := sampleReplay(now).save(dir, now); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, replayName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(b []byte, what string, at int) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		x := &replayTable{most: 10}
		if err := x.load(dir, now); err == nil || len(x.kept) != 0 {
			t.Errorf("%s at byte %d: %+v, %v", what, at, x.kept, err)
		}
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s at byte %d: the file is still there", what, at)
		}
	}
	for i := range whole {
		refused(whole[:i], "cut", i)
		b := bytes.Clone(whole)
		b[i] ^= 0x40
		refused(b, "changed", i)
	}
}

// FuzzReplayFile feeds the decoder of the file without its checksum: it takes no more memory than the file
// justifies, and ends.
func FuzzReplayFile(f *testing.F) {
	now := time.Unix(1, 0)
	for _, k := range sampleReplay(now).kept {
		f.Add(k.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := replayDecoder{b: b}
		k := d.results()
		if d.failed {
			return
		}
		if again := (&replayDecoder{b: k.appendTo(nil)}).results(); !again.expires.Equal(k.expires) || again.user != k.user || again.next != k.next || len(again.all) != len(k.all) {
			t.Errorf("%+v, and again %+v", k, again)
		}
	})
}
