// Agent is the program that package guest puts into the guest: it runs the host's
// commands, and rping on the iWARP provider.
//
//	agent serve HOST:PORT
//	agent client ADDR:PORT crc|plain SIZE...      pings a server
//	agent server ADDR:PORT crc|plain CLIENTS      serves that many clients
//	agent lock FILE OFFSET LENGTH                 locks bytes of a file until it is killed
//	agent stay URL FILE STOP                      works on a file of a share until the local file STOP exists
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"lwio/integration/guest"
	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// clientPorts is the first of the thousand ports of clients, one for each process.
const clientPorts = 9000

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage")
	}
	if args[0] == "serve" {
		return guest.Agent(args[1])
	}
	if args[0] == "lock" && len(args) == 4 {
		return lock(ctx, args[1], args[2], args[3])
	}
	if args[0] == "stay" && len(args) == 4 {
		return stay(ctx, args[1], args[2], args[3])
	}
	if len(args) < 4 || args[2] != "crc" && args[2] != "plain" {
		return errors.New("usage")
	}
	cfg := iwarp.Config{SegmentAtMSS: true, Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		return guest.DialFrom(ctx, clientPorts+os.Getpid()%1000, remote.String())
	}}
	if args[2] == "plain" {
		cfg.CRC = iwarp.CRCOff
	}
	addr, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return err
	}
	numbers := make([]int, len(args)-3)
	for i, s := range args[3:] {
		if numbers[i], err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	a, err := iwarp.New(&cfg).OpenAdapter(ctx, addr.Addr())
	if err != nil {
		return err
	}
	defer a.Close()
	to := rdma.IPAddr(iwarp.Name, addr)
	switch args[0] {
	case "client":
		return rping.Client(ctx, a, to, rping.ClientConfig{Sizes: numbers, Pause: 250 * time.Millisecond})
	case "server":
		l, err := rdma.Listen(ctx, a, to, 0)
		if err != nil {
			return err
		}
		for range numbers[0] {
			rounds, _, err := rping.Serve(ctx, a, l)
			if err != nil {
				return err
			}
			fmt.Println(rounds, "rounds")
		}
		return nil
	}
	return errors.New("usage")
}

// lock takes an exclusive lock of bytes of a file and holds it until the process ends. It prints
// "locked", or fails with "locked by another process".
func lock(ctx context.Context, file, offset, length string) error {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	var err error
	if l.Start, err = strconv.ParseInt(offset, 10, 64); err != nil {
		return err
	}
	if l.Len, err = strconv.ParseInt(length, 10, 64); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &l)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("locked by another process: %w", err)
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // a wait for a signal is no deadlock to the runtime
	defer stop()
	fmt.Println("locked")
	<-ctx.Done()
	return ctx.Err()
}
