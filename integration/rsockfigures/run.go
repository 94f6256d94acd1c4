package main

import (
	"context"
	"fmt"
	"time"

	"lwio/integration/internal/measure"
)

// patience is how long one run may take, and stall how long a side of it may stand still.
const (
	patience = 3 * time.Minute
	stall    = time.Minute
)

// conductor starts the two processes of each run.
type conductor struct {
	cores [2]int
	scale float64
}

// run is what one run of a job gave: the active side's outcome, then the passive's.
type run [2]outcome

// run carries a job out once.
func (c conductor) run(j job) (r run, err error) {
	j.Count = max(int(float64(j.Count)*c.scale), 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pair := measure.Pair{Cores: c.cores, Procs: 1}
	err = pair.Run(ctx, j, func(addr string) any {
		j.Active, j.Peer = true, addr
		return j
	}, [2]any{&r[0], &r[1]})
	if ctx.Err() != nil {
		return r, fmt.Errorf("not done after %v", patience)
	}
	return r, err
}
