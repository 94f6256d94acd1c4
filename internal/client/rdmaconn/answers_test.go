package rdmaconn

import (
	"testing"

	"lwio/internal/client/base"
	"lwio/rdma"
)

// Immediate data may arrive while another goroutine gives the read up. The connection stays up,
// and the credit comes back.
//
// Source: [OP-85], [OP-113]
func TestImmediateDataOfReadThatIsBeingGivenUp(t *testing.T) {
	c, _ := newFake(2, base.Interrupt, rdma.CapImmediate)
	o := postRead(t, c, 1)
	s := o.request
	if !o.recall() {
		t.Fatal("the read came back")
	}
	a, err := c.answers.fromImmediate(s.immediate())
	if err != nil {
		t.Fatal(err)
	}
	given := make(chan struct{})
	go func() {
		defer close(given)
		s.leave(o, 0)
		s.abandon()
	}()
	answer(t, c, a)
	<-given
	if n := freeRequestsOf(c); n != 2 || o.answers != 0 || c.IsDown() {
		t.Errorf("%d of 2 credits are free, %d answers, %v", n, o.answers, c.Err())
	}
}
