package smbshare

import "context"

// Carrier sends one LOCK or UNLOCK request of a persistent open over another connection than that of SMB, under the
// lock sequence by which the server does it once.
//
// Source: [OP-116]
type Carrier func(ctx context.Context, sequence uint32) CarrierResult

// CarrierResult is the result of a Carrier.
type CarrierResult struct {
	Outcome Outcome
	// Err is the answer, nil for success, or the reason why the call was given up.
	Err error
	// Over waits, for GivenUp, until nothing of the request goes on at the server.
	//
	// Errors: the error of ctx.
	Over func(ctx context.Context) error
}

// Outcome is the known state of a request of a Carrier.
type Outcome uint8

// The outcomes.
const (
	// NotSent: the request is not done, and may be sent over SMB.
	NotSent Outcome = iota
	// Answered: Err is the answer of the server.
	Answered
	// Lost: it is done or not, and nothing of it goes on. It may be sent over SMB under the same sequence.
	Lost
	// GivenUp: it is done or not, or goes on, and the call has ended.
	GivenUp
)
