package writelog

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sample is the configuration of a log of a test.
func sample(t testing.TB, slots int) *Config {
	return &Config{
		Dir:    t.TempDir(),
		Header: Header{Boot: "boot", ID: [8]byte{1, 2}, User: "alice", Replaced: [8]byte{6}, Previous: [8]byte{3}, PreviousNext: 70},
		Next:   100, Slots: slots, Failed: func(err error) { t.Error(err) },
		Earlier: []Record{
			{Number: 12, Done: true, Status: 0xC000007F, Info: 7},
			{Number: 11, Key: [24]byte{9}, Off: 4096, Length: 512},
		},
	}
}

func mustCreate(t testing.TB, cfg *Config) *Log {
	t.Helper()
	u, err := Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := u.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustLoad returns the only log of a directory.
func mustLoad(t testing.TB, dir string) Saved {
	t.Helper()
	all, err := Load(dir, "boot", func(err error) { t.Error(err) })
	if err != nil || len(all) != 1 {
		t.Fatalf("%d logs, %v", len(all), err)
	}
	return all[0]
}

// mapped returns the mappings of this process that are files of a directory.
func mapped(t testing.TB, dir string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), dir)
}

// A log has the writes in progress, the results, and the writes of earlier connections. It is loaded while it is still
// mapped, as after the death of the process, and leaves no mapping and no file.
//
// Source: [OP-112]
func TestLogOutlivesProcess(t *testing.T) {
	cfg := sample(t, 4)
	l := mustCreate(t, cfg)
	begun := Record{Number: 100, Key: [24]byte{1, 2, 3, 23: 9}, Off: 1 << 40, Length: 1 << 20}
	done, gone, overtaken := begun, begun, begun
	done.Number, gone.Number, overtaken.Number = 101, 102, 103
	l.Begin(&begun)
	i, j, k := l.Begin(&done), l.Begin(&gone), l.Begin(&overtaken)
	if l.Begin(&begun) != None {
		t.Error("a fifth slot")
	}
	l.End(i, 1, 2)
	l.Cancel(j)
	l.Overtake(k)
	l.SetNext(1000)
	l.SetUsed()
	done.Done, done.Status, done.Info, overtaken.Overtaken = true, 1, 2, true

	s := mustLoad(t, cfg.Dir)
	want := []Record{cfg.Earlier[1], cfg.Earlier[0], begun, done, overtaken}
	if !reflect.DeepEqual(s.Records, want) {
		t.Errorf("%+v, want %+v", s.Records, want)
	}
	if s.Header != cfg.Header || s.Next != 1000 || !s.Used {
		t.Errorf("%+v", s.Contents)
	}
	// The next process, too, notes results in it.
	s.End(s.Slots[2], 3, 4)
	s.Overtake(s.Slots[0])
	want[0].Overtaken, want[2].Done, want[2].Status, want[2].Info = true, true, 3, 4
	if s.Begin(&begun) != None {
		t.Error("a write begins in a log of an earlier process")
	}
	if again := mustLoad(t, cfg.Dir); !reflect.DeepEqual(again.Records, want) || again.Close() != nil {
		t.Errorf("%+v, want %+v", again.Records, want)
	}
	if err := errors.Join(l.Close(), s.Remove(), s.Remove()); err != nil || mapped(t, cfg.Dir) != 0 {
		t.Errorf("%v, %d mappings", err, mapped(t, cfg.Dir))
	}
	if names, err := os.ReadDir(cfg.Dir); err != nil || len(names) != 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// At every point between two stores of a record, the log has the record whole or not at all, and all others.
//
// Source: [OP-112]
func TestEachPrefixOfRecordIsDecoded(t *testing.T) {
	old := Record{Number: 1, Key: [24]byte{1}, Off: 10, Length: 20, Done: true, Info: 20}
	r := Record{Number: 1 << 40, Key: [24]byte{7: 1, 23: 2}, Off: 1 << 50, Length: 1 << 20}
	before, after := old.encode(), r.encode()
	stored := before
	step := func(i int, w uint64, want Record) {
		t.Helper()
		stored[i] = w
		got, ok := stored.decode()
		if empty := stored[wordNumber] == 0; empty != (want == Record{}) || !empty && (!ok || got != want) {
			t.Fatalf("after word %d: %+v, %t", i, got, ok)
		}
	}
	step(wordNumber, 0, Record{})
	for i := slotWords - 1; i > wordNumber; i-- { // as slot.begin
		step(i, after[i], Record{})
	}
	step(wordNumber, after[wordNumber], r)
	step(wordLength, after[wordLength]|overtaken, func() Record { x := r; x.Overtaken = true; return x }())
	s := before
	s.begin(&r)
	if s != after {
		t.Errorf("%x, want %x", s, after)
	}
}

// The log is compared with a model: any sequence of calls, looked at after each.
//
// Source: [OP-112]
func TestLogModel(t *testing.T) {
	const slots = 8
	cfg := sample(t, slots)
	cfg.Earlier = nil
	l := mustCreate(t, cfg)
	defer l.Remove()
	inProgress := make(map[int]Record)
	var ended []Record // the first ended first
	for number := range int64(500) {
		r := Record{Number: number, Key: [24]byte{byte(number)}, Off: rand.Int64(), Length: rand.Uint32()}
		i := l.Begin(&r)
		if (i == None) != (len(inProgress) == slots) {
			t.Fatalf("slot %d with %d writes in progress", i, len(inProgress))
		}
		if i != None {
			inProgress[i] = r
		}
		for i, r := range inProgress {
			switch rand.N(4) {
			case 0:
				r.Done, r.Status, r.Info = true, rand.Uint32(), rand.Uint32()
				l.End(i, r.Status, r.Info)
				ended = append(ended, r)
				delete(inProgress, i)
			case 1:
				l.Cancel(i)
				ended = append(ended, Record{Number: -1})
				delete(inProgress, i)
			case 2:
				r.Overtaken = true
				l.Overtake(i)
				inProgress[i] = r
			}
		}
		ended = ended[max(len(ended)+len(inProgress)-slots, 0):]
		var want []Record
		for _, r := range ended {
			if r.Number >= 0 {
				want = append(want, r)
			}
		}
		for _, r := range inProgress {
			want = append(want, r)
		}
		slices.SortFunc(want, func(a, b Record) int { return int(a.Number - b.Number) })
		b, err := os.ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := decode(b); err != nil || !slices.Equal(c.Records, want) {
			t.Fatalf("%+v, %v, want %+v", c, err, want)
		}
	}
}

// Logs of another boot, unfinished ones and damaged ones are removed. Of a connection and the one that replaced it the
// later log is left.
func TestLoadRemovesOtherLogs(t *testing.T) {
	cfg := sample(t, 2)
	dir := cfg.Dir
	logs := []*Log{mustCreate(t, cfg)}
	old := *cfg
	old.ID, old.Replaced = cfg.Replaced, [8]byte{}
	logs = append(logs, mustCreate(t, &old))
	before := *cfg
	before.ID, before.Boot = [8]byte{4}, "another"
	logs = append(logs, mustCreate(t, &before))
	unfinished := *cfg
	unfinished.ID = [8]byte{5}
	u, err := Create(&unfinished)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(logs, u.Log) {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	s := mustLoad(t, dir)
	if s.ID != cfg.ID {
		t.Errorf("%x", s.ID)
	}
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); len(names) != 1 || err != nil {
		t.Errorf("left are %v, %v", names, err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
	damaged := filepath.Join(dir, "writes.0102000000000000")
	for _, b := range [][]byte{nil, whole[:10], whole[:len(whole)-1], append(slices.Clone(whole), 0), make([]byte, len(whole))} {
		if err := os.WriteFile(damaged, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := Load(dir, "boot", nil); len(all) != 0 || !errors.Is(err, errDamaged) {
			t.Errorf("%d bytes: %v, %v", len(b), all, err)
		}
	}
	renamed := filepath.Join(dir, "writes.0103000000000000")
	if err := os.WriteFile(renamed, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := Load(dir, "boot", nil); len(all) != 0 || !errors.Is(err, errDamaged) {
		t.Errorf("another name: %v, %v", all, err)
	}
	if names, err := os.ReadDir(dir); len(names) != 0 || err != nil {
		t.Errorf("left are %v, %v", names, err)
	}
}

// A changed bit of the fields that do not change, or of a slot, is noticed or gives no other write than the stored ones.
func TestDamagedLog(t *testing.T) {
	cfg := sample(t, 2)
	l := mustCreate(t, cfg)
	defer l.Remove()
	r := Record{Number: 100, Key: [24]byte{1}, Off: 1, Length: 2}
	l.Begin(&r)
	whole, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(cfg.Earlier), r)
	for at := range len(whole) * 8 {
		if at/8 >= endFixed && at/8 < headerSize {
			continue
		}
		b := slices.Clone(whole)
		b[at/8] ^= 1 << (at % 8)
		c, err := decode(b)
		if err != nil {
			continue
		}
		for _, r := range c.Records {
			r.Overtaken = false
			if !slices.ContainsFunc(want, func(w Record) bool {
				return w == r || w.Number == r.Number && w.Off == r.Off && w.Length == r.Length && w.Key == r.Key && r.Done // a result is one word
			}) {
				t.Fatalf("bit %d: %+v", at, r)
			}
		}
	}
}

// FuzzLog feeds the decoder of a log: it takes no more memory than the file justifies, ends, and gives only records
// that a log can have.
func FuzzLog(f *testing.F) {
	l := mustCreate(f, sample(f, 4))
	l.Begin(&Record{Number: 100, Key: [24]byte{1}, Off: 1, Length: 2})
	whole, err := os.ReadFile(l.path)
	if err := errors.Join(err, l.Remove()); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headerSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err != nil {
			return
		}
		if len(c.Records) != len(c.Slots) || len(c.Records) > len(b)/slotSize || c.Next < 0 || len(c.User) > maxUser {
			t.Errorf("%+v", c)
		}
		for i, r := range c.Records {
			if x := r.encode(); r.Number < 0 || i > 0 && r.Number < c.Records[i-1].Number {
				t.Errorf("%+v, %x", r, x)
			}
		}
	})
}

// A failure of the file system ends the log, and nothing else: here the file is shorter than its mapping.
func TestFailedStoreEndsLog(t *testing.T) {
	var failure error
	cfg := sample(t, 4)
	cfg.Failed = func(err error) { failure = err }
	l := mustCreate(t, cfg)
	r := Record{Number: 100}
	i := l.Begin(&r)
	if err := os.Truncate(l.path, 0); err != nil {
		t.Fatal(err)
	}
	if l.Begin(&r) != None || !errors.Is(failure, unix.EIO) {
		t.Error(failure)
	}
	l.End(i, 0, 0)
	l.SetNext(1)
	if names, err := os.ReadDir(cfg.Dir); len(names) != 0 || err != nil || l.Close() != nil || mapped(t, cfg.Dir) != 0 {
		t.Errorf("left are %v, %v", names, err)
	}
	cfg.Dir = filepath.Join(cfg.Dir, "missing")
	if _, err := Create(cfg); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	cfg.User = strings.Repeat("u", maxUser+1)
	if _, err := Create(cfg); !errors.Is(err, errTooLong) {
		t.Error(err)
	}
}

// A write costs no allocation.
func TestWriteAllocatesNothing(t *testing.T) {
	l := mustCreate(t, sample(t, 4))
	defer l.Remove()
	r := Record{Number: 100}
	if n := testing.AllocsPerRun(100, func() { l.End(l.Begin(&r), 0, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkWrite is the cost of the log for a write.
func BenchmarkWrite(b *testing.B) {
	l := mustCreate(b, sample(b, 256))
	defer l.Remove()
	r := Record{Number: 100, Length: 4096}
	for b.Loop() {
		r.Number++
		l.End(l.Begin(&r), 0, 4096)
	}
}
