//go:build linux

package shm

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// TestResident: what a write takes from its file comes from memory where the request has it,
// whole, in both ways that such writes go. Source: design decision 10
func TestResident(t *testing.T) {
	const n = 4096
	active, passive := connected(t, nil, 1<<20)
	_, data, src := active.source(t, 100_000)
	active.introduce(t, passive.region)
	data = data[4096:][:n]
	memory := bytes.Repeat([]byte{0x5a}, n+1) // told from the file by what is in it
	for what, x := range map[string]struct{ resident, want []byte }{
		"whole":    {memory[:n], memory[:n]},
		"too much": {memory, data},
		"too few":  {memory[:n-1], data},
		"nothing":  {memory[:0], data},
		"none":     {nil, data},
	} {
		t.Run(what, func(t *testing.T) {
			for _, alone := range []bool{true, false} {
				clear(passive.mem)
				reqs := active.answered(src, passive, n, []byte("answered"))
				reqs[0].Resident = x.resident
				if !alone {
					second := reqs[0]
					second.Remote = passive.at(8 << 10)
					reqs = []rdma.Request{reqs[0], second, reqs[1]}
				}
				if k, err := active.qp.Post(reqs); k != len(reqs) || err != nil {
					t.Fatalf("%d are posted: %v", k, err)
				}
				next(t, active.icq)
				active.deliver(t, passive)
				if !bytes.Equal(passive.mem[:n], x.want) || !alone && !bytes.Equal(passive.mem[8<<10:][:n], x.want) {
					t.Errorf("alone %v: the bytes differ", alone)
				}
			}
		})
	}
}

// TestResidentIsGone: memory that goes away while it is copied is no failure: the file is
// read, and what it does not have any more either is not taken. Source: [OP-92i]
func TestResidentIsGone(t *testing.T) {
	const n = 4096
	active, passive := connected(t, nil, 1<<20)
	f, data, src := active.source(t, 100_000)
	active.introduce(t, passive.region)
	other, err := os.Create(f.Name() + " of another size")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Truncate(n); err != nil {
		t.Fatal(err)
	}
	gone, err := unix.Mmap(int(other.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(gone); err != nil {
			t.Error(err)
		}
	}()
	if err := other.Truncate(0); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{100_000, 4096} {
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		for _, alone := range []bool{true, false} {
			clear(passive.mem)
			reqs := active.answered(src, passive, n, []byte("answered"))
			reqs[0].Resident = gone
			if !alone {
				reqs = append(reqs[:1:1], reqs...)
			}
			k, err := active.qp.Post(reqs)
			if size <= 4096 {
				if k != 0 || !errors.Is(err, rdma.StatusDeviceBusy) {
					t.Errorf("alone %v: %d are posted of a file that has nothing there: %v", alone, k, err)
				}
				continue
			}
			if k != len(reqs) || err != nil {
				t.Fatalf("alone %v: %d are posted: %v", alone, k, err)
			}
			next(t, active.icq)
			active.deliver(t, passive)
			if !bytes.Equal(passive.mem[:n], data[4096:][:n]) {
				t.Errorf("alone %v: the bytes are not the file's", alone)
			}
		}
	}
	if res := active.write(t, rdma.Request{ID: 3, Flags: rdma.FlagInline, Inline: []byte{1}, Remote: passive.at(0)}); res.Status != rdma.StatusSuccess {
		t.Errorf("after that: %+v", res)
	}
}
