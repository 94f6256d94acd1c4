package rsock

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestGRPCInteroperability runs gRPC's own interoperability tests, and then many of them at a time.
// A test that fails ends the program with a message.
func TestGRPCInteroperability(t *testing.T) {
	onAll(t, func(t *testing.T, l *link) {
		nl := l.listen()
		srv := grpc.NewServer()
		testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
		served := make(chan error, 1)
		go func() { served <- srv.Serve(nl) }()
		defer func() {
			srv.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		cc, err := grpc.NewClient("passthrough:///"+nl.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return l.dial(ctx, "tcp", addr) }))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		ctx, client := l.ctx(), testgrpc.NewTestServiceClient(cc)
		for _, test := range []func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
			interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming, interop.DoServerStreaming,
			interop.DoPingPong, interop.DoEmptyStream, interop.DoTimeoutOnSleepingServer,
			interop.DoCancelAfterFirstResponse, interop.DoCustomMetadata, interop.DoStatusCodeAndMessage, interop.DoSpecialStatusMessage,
		} {
			test(ctx, client)
		}
		cancelAfterBegin(ctx, t, client)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 10 {
					interop.DoLargeUnaryCall(ctx, client)
					interop.DoPingPong(ctx, client)
					interop.DoServerStreaming(ctx, client)
					interop.DoCancelAfterFirstResponse(ctx, client)
				}
			})
		}
		wg.Wait()
	})
}

// cancelAfterBegin cancels a call that has begun. In interop.DoCancelAfterBegin the client ends its stream after that, and
// the server may answer before the cancellation takes effect. Here it waits for more of the stream.
func cancelAfterBegin(ctx context.Context, t *testing.T, client testgrpc.TestServiceClient) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := client.StreamingInputCall(ctx)
	cancel()
	if err == nil {
		err = stream.RecvMsg(new(testgrpc.StreamingInputCallResponse))
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("a canceled call ends with %v", err)
	}
}
