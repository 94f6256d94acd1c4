package account

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrAllowance refuses memory beyond the allowance of a connection without an authenticated user.
var ErrAllowance = errors.New("more memory than an unauthenticated peer may hold")

// Account is the memory of one connection. Each connection has an allowance, which the limit of
// connections bounds; taking and returning it costs one atomic operation. Memory beyond the
// allowance is a part of a Sum, of the user of the connection. Safe for concurrent use.
type Account struct {
	sum       *Sum
	allowance int64 // bytes
	own       atomic.Int64
}

// NewAccount returns the account of a new connection. allowance is in bytes.
func NewAccount(sum *Sum, allowance int64) *Account { return &Account{sum: sum, allowance: allowance} }

// takeOwn takes n bytes of the allowance, and reports whether they fit.
func (a *Account) takeOwn(n int64) bool {
	if a.own.Add(n) <= a.allowance {
		return true
	}
	a.own.Add(-n)
	return false
}

// Charge is memory that an account holds. The zero value is none. It has one owner at a time,
// which returns it when the memory is free.
type Charge struct {
	account *Account
	user    string
	step    Step
	own     int64 // bytes of the allowance
	shared  int64 // bytes of the sum
}

// Bytes returns the size of the charge, in bytes.
func (c *Charge) Bytes() int64 { return c.own + c.shared }

// TryCharge charges n bytes to the connection, or beyond its allowance to a user. ok is false if
// they are not available now.
func (a *Account) TryCharge(user string, n int64, step Step) (c Charge, ok bool) {
	if a.takeOwn(n) {
		return Charge{account: a, own: n}, true
	}
	if user == "" || !a.sum.Take(user, n, step) {
		return Charge{}, false
	}
	return Charge{account: a, user: user, step: step, shared: n}, true
}

// Charge charges n bytes to the connection, or beyond its allowance to a user, and waits until
// they are available.
//
// Errors: ErrAllowance if user is empty, the cause of ctx.
func (a *Account) Charge(ctx context.Context, user string, n int64, step Step) (Charge, error) {
	if a.takeOwn(n) {
		return Charge{account: a, own: n}, nil
	}
	if user == "" {
		return Charge{}, ErrAllowance
	}
	if err := a.sum.Wait(ctx, user, n, step); err != nil {
		return Charge{}, err
	}
	return Charge{account: a, user: user, step: step, shared: n}, nil
}

// ForceCharge charges n bytes even above the limits, see Sum.Force.
func (a *Account) ForceCharge(user string, n int64, step Step) Charge {
	if a.takeOwn(n) {
		return Charge{account: a, own: n}
	}
	a.sum.Force(user, n, step)
	return Charge{account: a, user: user, step: step, shared: n}
}

// Reduce returns n bytes of the charge, at most all of it.
func (c *Charge) Reduce(n int64) {
	switch {
	case n <= 0:
	case c.own > 0:
		c.own -= n
		c.account.own.Add(-n)
	default:
		c.shared -= n
		c.account.sum.Give(c.user, n, c.step)
	}
}

// Return returns the charge. A second Return does nothing.
func (c *Charge) Return() {
	if c.own > 0 {
		c.account.own.Add(-c.own)
	}
	if c.shared > 0 {
		c.account.sum.Give(c.user, c.shared, c.step)
	}
	*c = Charge{}
}
