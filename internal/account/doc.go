// Package account charges peers for the resources that they hold. A Sum counts one resource: of all
// peers together and of each user, with a limit for both, and with waits. An Account is the memory of
// one connection: an allowance of its own, which costs one atomic operation, and beyond it a part of
// a Sum in the name of a user. A Charge is memory that an account holds; its owner returns it when
// the last byte that it covers is free.
//
// All users go by their canonical names. Fold maps the spellings of an unknown user to one string.
//
// Each Sum has one lock. No other lock is taken while it is held.
//
// The package imports the standard library only.
package account
