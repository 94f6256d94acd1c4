package main

import (
	"context"
	"time"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
	"lwio/internal/host"
)

// aead is the floor of encryption: one side encrypts blocks in place with AES-128-GCM of the
// standard library. Decryption costs the same.
type aead struct {
	Size  int // bytes of a block
	Depth int // blocks that are encrypted in turns
}

// Run does the job once.
func (j aead) Run(_ context.Context, l *measure.Lab) (measure.Sample, error) {
	gcm, err := sides.NewAEAD(0)
	if err != nil {
		return nil, err
	}
	blocks := make([][]byte, j.Depth)
	for i := range blocks {
		blocks[i] = make([]byte, j.Size, j.Size+gcm.Overhead())
	}
	nonce := make([]byte, gcm.NonceSize())
	n := 0
	begin, cpu := time.Now(), host.CPUTime()
	for time.Since(begin) < l.Runtime {
		for _, b := range blocks {
			gcm.Seal(b[:0], nonce, b, nil) // one nonce for all: the time does not depend on it
			n++
		}
	}
	took := time.Since(begin)
	cpu = host.CPUTime() - cpu
	rate := float64(n) / took.Seconds()
	return measure.Sample{
		measure.Rate: rate, measure.Throughput: rate * float64(j.Size), measure.ClientCPU: float64(cpu.Nanoseconds()) / float64(n),
	}, nil
}
