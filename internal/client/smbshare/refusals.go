package smbshare

import (
	"errors"
	"slices"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
)

// refusalParts bounds the time from a refusal of the user to the next attempt: it is at most one of so many parts of
// Config.ReconnectTimeout, and base.MaxPause. A server counts wrong passwords and refuses the user for a time if they are
// too many, so there are only a few attempts with a password that may be wrong.
const refusalParts = 3

// refusals are the refusals of the user by the attempts to replace a link. The server cannot sign a refused logon, as there
// is no key yet. So a refusal can be that of an attacker on the network, and is final only if all attempts bring it for
// Config.ReconnectTimeout. The zero value has none. Not safe for concurrent use.
type refusals struct {
	since time.Time // of the first one in a row; zero for none
}

// note notes the error of an attempt.
func (r *refusals) note(err error, now time.Time) {
	switch {
	case !refusesUser(err):
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
}

// any reports whether the last attempt was refused.
func (r *refusals) any() bool { return !r.since.IsZero() }

// final reports whether the refusals have lasted for a time.
func (r *refusals) final(now time.Time, most time.Duration) bool {
	return r.any() && now.Sub(r.since) >= most
}

// refusalPause returns the longest time from a refusal to the next attempt.
func refusalPause(timeout time.Duration) time.Duration {
	return min(timeout/refusalParts, base.MaxPause)
}

// refusesUser reports whether err is the refusal of the user.
func refusesUser(err error) bool {
	return slices.ContainsFunc([]ntstatus.Status{
		ntstatus.LogonFailure, ntstatus.WrongPassword, ntstatus.AccountRestriction,
	}, func(st ntstatus.Status) bool { return errors.Is(err, st) })
}
