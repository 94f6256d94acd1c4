// Command grpc is a gRPC server and a client that use RDMA if both sides can: shared memory
// on one host, iWARP over TCP between hosts. Otherwise they use plain TCP.
//
//	go run . serve 127.0.0.1:7070
//	go run . ask 127.0.0.1:7070
//
// It differs from other gRPC programs only by the listener and the dialer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg := &rsock.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}, HandshakeTimeout: 20 * time.Second}
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, cfg, args[1], out)
	case len(args) == 2 && args[0] == "ask":
		return ask(ctx, cfg, args[1], out)
	}
	return errors.New("usage: grpc serve|ask HOST:PORT")
}

// serve serves gRPC's health service until ctx ends. It prints its address first.
func serve(ctx context.Context, cfg *rsock.Config, addr string, out io.Writer) error {
	l, err := rsock.Listen("tcp", addr, cfg)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	defer context.AfterFunc(ctx, srv.GracefulStop)()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	return srv.Serve(l)
}

// ask requests the health of the server, and prints it with the transport of the connection.
func ask(ctx context.Context, cfg *rsock.Config, addr string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d := &rsock.Dialer{Config: cfg}
	via := make(chan rsock.Transport, 1)
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := d.DialConn(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			select {
			case via <- c.Transport():
			default:
			}
			return c, nil
		}))
	if err != nil {
		return err
	}
	defer cc.Close()
	answer, err := grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%v by %v\n", answer.GetStatus(), <-via)
	return err
}
