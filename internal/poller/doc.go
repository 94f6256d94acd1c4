// Package poller chooses the goroutine that takes the completions of a completion queue.
//
// Many goroutines wait for completions of one connection. One of them has the role of the
// poller: it polls the completion queue or sleeps on it, and delivers the completions of all
// goroutines. The other goroutines are parked. A completion wakes the poller itself, so that a
// single caller is woken without a hand-off between goroutines.
//
//	Park ──► poller ──► Pass
//	  └────► parked ─┬► Wake:  the condition of the waiter holds
//	                 ├► Pass:  the waiter is the poller
//	                 └► Leave: the goroutine gives up
//
// The poller that leaves passes the role to the waiter that has been parked for the longest
// time. Without a parked waiter the role is free.
//
// Each connection has one reader goroutine, which runs [Poller.Serve]. The reader is the
// poller while no call is, so that messages of the peer and the end of the connection are
// always noticed. It takes the role in two cases: the role was free and not used for some
// milliseconds, or a wait needs a poller and cannot be the poller itself. It gives the role up
// when a call comes.
//
// The loops that wait and that poll belong to the users of the package. Their calls end in
// different ways: a request of a client by its answer, its context or the end of the
// connection, a call of a stream by a flag. The client also asks the server for a wake-up
// before it sleeps.
//
// # Locks
//
// Poller.mu is held for a few instructions. No other lock is taken while it is held.
package poller
