package iwarp

import (
	"context"
	"testing"

	"lwio/rdma"
)

// The queue and the connections on it end. Other connections continue.
//
// Source: [ND CompletionQueue.Notify], [RFC 5042 §6.4.3.2]
func TestCompletionQueueOverrunEndsConnections(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 8, sge: 1, buf: 4096})
	other, err := server.a.CreateCompletionQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	notified := make(chan error, 1)
	go func() { notified <- server.cq.Wait(context.Background(), rdma.NotifyErrors) }()
	if err := server.cq.Resize(2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		server.recv(uint64(i), 0, 8)
		client.post(rdma.Request{Op: rdma.OpSend, SGL: client.sgl(0, 8)})
	}
	if err := <-notified; rdma.StatusOf(err) != rdma.StatusBufferOverflow {
		t.Error(err)
	}
	server.wantDone()
	client.wantDone()
	if err := server.con.Err(); rdma.StatusOf(err) != rdma.StatusBufferOverflow {
		t.Error(err)
	}
	if n, err := server.cq.Poll(make([]rdma.Result, 8)); n != 2 || rdma.StatusOf(err) != rdma.StatusBufferOverflow {
		t.Error(n, err)
	}
	if n, err := other.Poll(make([]rdma.Result, 8)); n != 0 || err != nil {
		t.Error(n, err)
	}
}
