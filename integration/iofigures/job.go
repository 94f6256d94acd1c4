package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"lwio/integration/internal/measure"
)

// The words by which this program starts itself as one side of a run.
const (
	clientArgument = "client"
	peerArgument   = "peer"
)

// Ways to the bytes.
const (
	wayLocal = "local" // Go's ReadAt and WriteAt
	wayShm   = "shm"
	wayIWARP = "iwarp"
	wayTCP   = "tcp" // a program that does nothing else; see playPeer
	wayNBD   = "nbd" // nbdkit's file plugin, and fio
)

// style is how a program asks for what it wants.
type style string

const (
	batch  style = "batch"  // Depth operations in flight, one goroutine
	single style = "single" // a call at a time on each of Depth goroutines
	burst  style = "burst"  // Depth operations handed over at once, then all waited for
	vec    style = "vec"    // Depth blocks that follow each other, by one ReadVec
	spin   style = "spin"   // of tcp: a question and its answer, both sides spinning
	sleep  style = "sleep"  // of tcp: the same, both sides asleep in the network poller
	stream style = "stream" // of tcp: blocks one after another, unasked
	sink   style = "sink"   // of tcp: blocks that are written to the file, each answered by a byte
	drain  style = "drain"  // of tcp: the same, but the blocks are dropped
)

// job is what the client of a run does, in a process of its own.
type job struct {
	Way    string
	Mode   string // completion: polling, adaptive, interrupt
	NoCRC  bool   // of iwarp
	Style  style
	Write  bool
	Size   int  // bytes of one operation
	Depth  int  // operations in flight, or buffers used in turns
	Lanes  int  // connections; 0 is one
	Shared bool // client and server on one core
	Paged  bool // in the file that was laid down page by page
	Cubic  bool // of tcp: its congestion control, not the system's

	// What the conductor knows.
	Runtime time.Duration
	File    string // the file's name on this host
	Span    int64  // its size in bytes
	At      string // URL of the share, or address
	Server  int    // pid of the server process
}

// outcome is what the client measured.
type outcome struct {
	Ops            int64
	Took           time.Duration
	Client, Server time.Duration // CPU
	Others         time.Duration // CPU of all that is neither; see others
	P50            time.Duration // if operations were timed
}

// others is how much of a core was busy with what is neither client nor server: the
// kernel's own threads, and whatever else disturbs.
func (o outcome) others() float64 { return max(o.Others.Seconds()/o.Took.Seconds(), 0) }

// rate is operations a second; cpu and serverCPU are nanoseconds of one operation.
func (o outcome) rate() float64      { return float64(o.Ops) / o.Took.Seconds() }
func (o outcome) cpu() float64       { return float64(o.Client) / float64(o.Ops) }
func (o outcome) serverCPU() float64 { return float64(o.Server) / float64(o.Ops) }

// lane does the operations that a meter gives, and returns when it gives no more.
type lane interface {
	run(m *meter) error
	Close() error
}

// playClient is the main function of a client process.
func playClient(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	o, err := j.play()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// warm is after how many operations a lane that is one of many has what it needs: among a
// thousand it does few in the time that is enough for one.
const warm = 64

// play runs the job for a moment, and then measures it.
func (j job) play() (o outcome, err error) {
	lanes, err := j.open()
	defer func() {
		for _, l := range lanes {
			if e := l.Close(); err == nil {
				err = e
			}
		}
	}()
	if err != nil {
		return o, err
	}
	if _, err := j.phase(lanes, j.Runtime/8, warm); err != nil {
		return o, err
	}
	machine := measure.MachineCPU()
	client, server, start := measure.SelfCPU(), measure.ProcessCPU(j.Server), time.Now()
	seen, err := j.phase(lanes, j.Runtime, 1)
	o.Took = time.Since(start)
	o.Client, o.Server = measure.SelfCPU()-client, measure.ProcessCPU(j.Server)-server
	o.Others = measure.MachineCPU() - machine - o.Client - o.Server
	o.Ops, o.P50 = seen.ops, seen.median()
	return o, err
}

// ours tells whether the job is done with our server.
func (j job) ours() bool { return j.Way == wayShm || j.Way == wayIWARP }

// open opens the lanes; those that are open are returned in any case.
func (j job) open() ([]lane, error) {
	switch j.Way {
	case wayLocal:
		return one(openLocal(j))
	case wayTCP:
		return one(openTCP(j))
	case wayShm, wayIWARP:
		return openRemote(j)
	}
	return nil, fmt.Errorf("there is no way %q", j.Way)
}

func one(l lane, err error) ([]lane, error) {
	if err != nil {
		return nil, err
	}
	return []lane{l}, nil
}
