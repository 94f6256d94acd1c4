package server

import (
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The table against a model: numbers are 1 to 65535, no two files share one,
// and a number that was given up comes back only after all others.
//
// Source: [OP-54] [OP-55] [LWIO §File Registration]
func TestFileTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		table := fileTable{limit: limit, last: uint16(rapid.SampledFrom([]int{0, 65530, 100}).Draw(t, "last"))}
		model := map[uint16]*registeredFile{}
		last := table.last
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				f := &registeredFile{}
				ok := table.add(f)
				if ok != (len(model) < limit) {
					t.Fatalf("add = %v with %d of %d", ok, len(model), limit)
				}
				if !ok {
					return
				}
				want := last + 1
				for want == 0 || model[want] != nil {
					want++
				}
				if f.id != want {
					t.Fatalf("number %d, want %d", f.id, want)
				}
				model[f.id], last = f, f.id
			},
			"remove": func(t *rapid.T) {
				id := rapid.Uint16().Draw(t, "id")
				for k := range model { // any of them
					id = k
					break
				}
				f := model[id]
				if f == nil {
					return
				}
				if !table.remove(f, new(sync.WaitGroup)) || table.remove(f, new(sync.WaitGroup)) {
					t.Fatal("remove does not remove once")
				}
				delete(model, id)
			},
			"": func(t *rapid.T) {
				for id, f := range model {
					if table.get(id) != f {
						t.Fatalf("file %d is lost", id)
					}
				}
				if len(table.byID) != len(model) || table.get(0) != nil {
					t.Fatal("files that were not added")
				}
			},
		})
	})
}

// All 65535 numbers can be in use, and the one that is given up then comes back.
//
// Source: [OP-54]
func TestFileTableUsesAllNumbers(t *testing.T) {
	table := fileTable{limit: MaxFilesPerConnection}
	files := make([]*registeredFile, MaxFilesPerConnection)
	for i := range files {
		files[i] = &registeredFile{}
		if !table.add(files[i]) {
			t.Fatalf("file %d refused", i)
		}
	}
	if table.add(&registeredFile{}) {
		t.Fatal("file 65536 was accepted")
	}
	table.remove(files[77], new(sync.WaitGroup))
	f := &registeredFile{}
	if !table.add(f) || f.id != files[77].id {
		t.Fatalf("got number %d, want %d", f.id, files[77].id)
	}
}

// The end of the last reference answers the waiting CLOSE once, in every order of CLOSE and I/O. A
// file without references is not acquired.
//
// Source: [OP-94d] [OP-58b]
func TestLastReferenceAnswersClose(t *testing.T) {
	c, _ := newFuzzConn(t)
	f := c.files.get(1)
	const ops = 100
	for range ops {
		if !f.acquire() {
			t.Fatal("an open file is not acquired")
		}
	}
	closer := new(op)
	answered := make(chan *op, ops+1)
	var wg sync.WaitGroup
	c.files.remove(f, &c.jobs)
	defer c.jobs.Done()
	f.closer = closer
	wg.Go(func() { answered <- f.release() })
	for range ops {
		wg.Go(func() { answered <- f.release() })
	}
	wg.Wait()
	close(answered)
	n := 0
	for o := range answered {
		if o == closer {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the CLOSE is answered %d times", n)
	}
	if f.acquire() {
		t.Error("a closed file is acquired")
	}
	if c.files.get(1) != nil {
		t.Error("a removed file is found")
	}
}
