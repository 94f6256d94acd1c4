package main

import (
	"errors"
	"time"
)

// A hand-over replaces the process of a server by a new one of the program, without a refused connection. The
// processes share a socket: descriptor 3 of the new one, the successor. predecessorVariable in its environment is
// the id of the other one, the predecessor. A launcher, a third process, starts the successor and ends, so that a
// supervisor becomes the parent. The messages, each a step in JSON, in this order:
//
//	predecessor  offers the descriptors of its sockets, and its printed lines
//	successor    is ready: it has read its files
//	predecessor  has closed its server, and with it the state
//	successor    serves, or has failed
//
// The end of the socket is the end of the other process.
const predecessorVariable = "LWIO_PREDECESSOR"

// The steps of a hand-over.
const (
	stepOffer  = "offer"
	stepReady  = "ready"
	stepGo     = "go"
	stepServes = "serves"
	stepFailed = "failed"
)

// step is a message of a hand-over.
type step struct {
	Step    string   `json:"step"`
	Names   []string `json:"names,omitempty"`   // of the descriptors
	Printed []string `json:"printed,omitempty"` // lines
	Error   string   `json:"error,omitempty"`
}

const (
	// launchTime bounds the time in which a launcher starts the successor.
	launchTime = 10 * time.Second
	// readyTime bounds the time from the start of a successor until it is ready.
	readyTime = 30 * time.Second
	// takeOverTime bounds the time until it serves then.
	takeOverTime = 30 * time.Second
	// maxStep bounds a message, in bytes.
	maxStep = 64 << 10
)

// errLaunched ends a process that has only started the successor of another one.
var errLaunched = errors.New("the new process was started")

// errOtherEnded is the end of a hand-over because the other process has ended or closed the socket.
var errOtherEnded = errors.New("the other process has ended")

// departure is the end of a predecessor. The zero value is none.
type departure struct {
	ended chan struct{} // closed at the end of the predecessor; nil without one
	close func()
}

// stop does not wait for the end any more.
func (d *departure) stop() {
	if d.close != nil {
		d.close()
		<-d.ended
	}
}
