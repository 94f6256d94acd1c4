// Package hostmemory tells how much memory there is.
package hostmemory
