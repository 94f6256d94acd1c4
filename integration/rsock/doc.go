// Package rsock holds the tests of lwio/rsock with programs that are not written for it:
// the standard library's HTTP, gRPC's interoperability tests, and a PostgreSQL client. Each
// runs on every provider, and fails if a connection did not use RDMA.
package rsock
