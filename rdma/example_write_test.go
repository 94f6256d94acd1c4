package rdma_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// end is one end of a connection, with a registered buffer.
type end struct {
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	region rdma.MemoryRegion
}

// newEnd makes the objects of one end on an adapter. The adapter closes them.
func newEnd(ctx context.Context, a rdma.Adapter) end {
	cq, err := a.CreateCompletionQueue(8)
	if err != nil {
		log.Fatal(err)
	}
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: cq, InitiatorCQ: cq,
		ReceiveDepth: 1, InitiatorDepth: 2, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	region, err := a.RegisterMemory(ctx, make([]byte, 4096), rdma.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	return end{cq, qp, region}
}

// next waits for the next result, which must be a success.
func (e end) next(ctx context.Context) rdma.Result {
	var results [1]rdma.Result
	for {
		n, err := e.cq.Poll(results[:])
		if err == nil && n == 0 {
			err = e.cq.Wait(ctx, rdma.NotifyAny)
		}
		if err == nil && n > 0 && results[0].Status != rdma.StatusSuccess {
			err = results[0].Status
		}
		if err != nil {
			log.Fatal(err)
		}
		if n > 0 {
			return results[0]
		}
	}
}

// A client writes data into the memory of a server by RDMA, then sends a message. The server
// learns of both by the receive of the message.
func Example() {
	ctx := context.Background()
	adapter, err := iwarp.New(nil).OpenAdapter(ctx, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer adapter.Close()
	l, err := rdma.Listen(ctx, adapter, rdma.IPAddr("iwarp", netip.MustParseAddrPort("127.0.0.1:0")), 1)
	if err != nil {
		log.Fatal(err)
	}
	at, err := l.LocalAddr()
	if err != nil {
		log.Fatal(err)
	}

	// The server posts a receive before it accepts. In a protocol it sends the remote address of
	// its memory to the client; here both are in one program.
	server := newEnd(ctx, adapter)
	accepted := make(chan error)
	go func() {
		c, err := adapter.CreateConnector()
		if err == nil {
			err = l.ConnectionRequest(ctx, c)
		}
		if err == nil {
			_, err = server.qp.PostReceive([]rdma.ReceiveRequest{
				{ID: 1, SGL: []rdma.SGE{{Region: server.region, Offset: 4000, Length: 96}}},
			})
		}
		if err == nil {
			err = c.Accept(ctx, server.qp, rdma.ReadLimits{}, nil)
		}
		accepted <- err
	}()

	client := newEnd(ctx, adapter)
	if _, err := rdma.Dial(ctx, adapter, client.qp, at, rdma.DialConfig{}); err != nil {
		log.Fatal(err)
	}
	n := copy(client.region.Bytes(), "hello")
	data := []rdma.SGE{{Region: client.region, Length: n}}
	_, err = client.qp.Post([]rdma.Request{
		{Op: rdma.OpWrite, ID: 2, SGL: data, Remote: server.region.RemoteAddr(), Flags: rdma.FlagSilentSuccess},
		{Op: rdma.OpSend, ID: 3, SGL: data},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := <-accepted; err != nil {
		log.Fatal(err)
	}
	r := server.next(ctx)
	fmt.Printf("%v of %d bytes; %q was written before\n", r.Op, r.Bytes, server.region.Bytes()[:n])
	// Output: receive of 5 bytes; "hello" was written before
}
