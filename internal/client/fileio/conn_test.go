package fileio

import (
	"reflect"
	"testing"

	"lwio/internal/client/rdmaconn"
)

// The layout of cookies and immediate data: an index and a generation.
const (
	indexBits = 16
	indexMask = 1<<indexBits - 1
)

// freeCredits is how many messages may be sent on a connection now.
func freeCredits(c *rdmaconn.Conn) int {
	_, free := c.Credits()
	return free
}

// grantedCredits is how many messages may be in flight on a connection.
func grantedCredits(c *rdmaconn.Conn) int {
	granted, _ := c.Credits()
	return granted
}

// waitAnswered waits until n requests of a queue on its first path were answered.
func waitAnswered(t *testing.T, q *queue, n int) {
	t.Helper()
	q.SleepAt(&q.flights[0].Place, n)
	waitFor(t, q.Ready)
}

// pollerWaits returns the number of waits that require a poller on a connection. Precondition: no such
// wait begins or ends meanwhile.
func pollerWaits(cn *rdmaconn.Conn) int {
	poller := reflect.ValueOf(cn).Elem().FieldByName("progress").FieldByName("poller")
	return int(poller.FieldByName("readerOnly").FieldByName("v").Int())
}
