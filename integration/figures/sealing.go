package main

import (
	"context"
	"crypto/cipher"
	enc "encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

const (
	// sealedBytes is the mean of the plain sizes of the two records of an operation.
	sealedBytes = (48 + 32 + 16 + 32) / 2
	tagSize     = 16
)

// aeadFloor is the least work that sealing can add: the AEAD of the standard library over the bytes of an
// operation, in place, on one core. Each side works on the request, the answer and the data. One side
// seals the data, and the other opens it. If both sides busy-poll, and one operation is in flight, each
// side spends the time of the other one too: the CPU time of both is the time of the operation.
type aeadFloor struct {
	Size  int // bytes of data of an operation
	Depth int // operations in flight, each with memory of its own
	Write bool
	Polls bool // both sides busy-poll
}

// Run does the job once.
func (j aeadFloor) Run(_ context.Context, l *measure.Lab) (s measure.Sample, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := measure.Pin(0, l.Client); err != nil {
		return nil, err
	}
	s, err = j.measure(l.Runtime)
	return s, errors.Join(err, unix.SchedSetaffinity(0, &before))
}

// measure works on batches of the operations of all requests in flight, as long as a run lasts.
func (j aeadFloor) measure(runtime time.Duration) (measure.Sample, error) {
	w, err := newAEADWork(j)
	if err != nil {
		return nil, err
	}
	var sealing, opening time.Duration
	ops := 0
	for began := time.Now(); time.Since(began) < runtime; {
		start, err := threadCPU()
		if err != nil {
			return nil, err
		}
		if err := w.seal(); err != nil {
			return nil, err
		}
		middle, err := threadCPU()
		if err != nil {
			return nil, err
		}
		if err := w.open(); err != nil {
			return nil, err
		}
		end, err := threadCPU()
		if err != nil {
			return nil, err
		}
		sealing, opening, ops = sealing+middle-start, opening+end-middle, ops+w.ops
	}
	client, server := opening, sealing
	if j.Write {
		client, server = sealing, opening
	}
	if j.Polls {
		client, server = sealing+opening, sealing+opening
	}
	n := float64(ops)
	return measure.Sample{
		measure.Rate: n / (sealing + opening).Seconds(), measure.P50: float64(sealing+opening) / n,
		measure.ClientCPU: float64(client) / n, measure.ServerCPU: float64(server) / n,
	}, nil
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("clock_gettime: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// aeadWork is the memory of operations: data, and records. A batch has enough operations that the clock
// costs nothing.
type aeadWork struct {
	aead      cipher.AEAD
	data      [][]byte
	record    [sealedBytes + tagSize]byte
	nonce     [12]byte
	count     uint64
	ops, size int
}

// batchBytes is the least number of bytes of a batch.
const batchBytes = 4 * mib

func newAEADWork(j aeadFloor) (*aeadWork, error) {
	aead, err := sides.NewAEAD(0)
	if err != nil {
		return nil, err
	}
	w := &aeadWork{aead: aead, size: j.Size, ops: max(batchBytes/(j.Size*j.Depth), 1) * j.Depth}
	for range w.ops {
		w.data = append(w.data, make([]byte, j.Size))
	}
	return w, nil
}

// at returns the nonce of operation i of a batch.
func (w *aeadWork) at(i int) []byte {
	enc.LittleEndian.PutUint64(w.nonce[4:], w.count+uint64(i))
	return w.nonce[:]
}

// seal does the work of the side that seals the data.
func (w *aeadWork) seal() (err error) {
	for i, p := range w.data {
		w.aead.Seal(p[:0], w.at(i), p[:w.size-tagSize], nil)
		err = errors.Join(err, w.work(i))
	}
	return err
}

// open does the work of the side that opens the data, and verifies it.
func (w *aeadWork) open() (err error) {
	for i, p := range w.data {
		_, e := w.aead.Open(p[:0], w.at(i), p, nil)
		err = errors.Join(err, e, w.work(i))
	}
	w.count += uint64(w.ops)
	return err
}

// work seals one record and opens it.
func (w *aeadWork) work(i int) error {
	w.aead.Seal(w.record[:0], w.at(i), w.record[:sealedBytes], nil)
	_, err := w.aead.Open(w.record[:0], w.at(i), w.record[:], nil)
	return err
}

// exchanges are jobs of two processes without LWIO that do the work of a load over TCP, with the messages of a
// sealed connection: without AEAD, and with it. Their difference is the AEAD between system calls, where its code
// and its keys have left the caches of the CPU. They use the congestion control of iwarp within a host.
func (j bench) exchanges(polls bool) (plain, sealed tcpJob) {
	x := sides.Job{Bench: "read records", Size: j.Size, Flight: j.Depth, Count: exchangeRate(j.Size, polls)}
	if j.RW == "randwrite" {
		x.Bench = "write records"
	}
	plain = tcp(x, polls).withFile()
	plain.Congestion = "reno"
	sealed = plain
	sealed.Seal = true
	return plain, sealed
}

// exchangeRate is about the number of exchanges of a size in a second.
func exchangeRate(size int, polls bool) int {
	switch {
	case size >= mib:
		return 1_500
	case polls:
		return 50_000
	}
	return 150_000
}

// maxSealingCost bounds the cost of sealing, as a multiple of the floor.
const maxSealingCost = 1.3

// sealed is a row of a load over iWARP: plain, sealed, and the floors of sealing: the AEAD in a loop, and between system
// calls. Both sides busy-poll for a single operation, because a sleep costs many times more than the AEAD and varies.
func sealed(name, title string, j bench) measure.Row {
	polls, mode := j.Depth == 1, adaptive
	if polls {
		mode = polling
	}
	j = j.via(viaIWARP, mode)
	j.Timed = polls
	bars := []measure.Bar{sealingCost(measure.ClientCPU), sealingCost(measure.ServerCPU)}
	if polls {
		bars = append(bars, sealingCost(measure.P50))
	}
	without, with := j.exchanges(polls)
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "iwarp, CRC on, plain", Job: j},
		{Name: "iwarp, CRC on, sealed", Job: j.encrypted()},
		{Name: "AES-128-GCM over the same bytes", Job: aeadFloor{j.Size, j.Depth, j.RW == "randwrite", polls}},
		{Name: "TCP without LWIO, plain", Job: without},
		{Name: "TCP without LWIO, AES-128-GCM", Job: with},
	}, Bars: bars}
}

// sealingCost is a bar for the cost of sealing in a row of sealed.
func sealingCost(f measure.Figure) measure.Bar {
	return measure.Bar{Ours: 1, Beside: 0, Figure: f, Kind: measure.PlusFloor, Amount: maxSealingCost}.Or(2).Between(3, 4)
}
