// Agent is the program that package guest puts into the guest: it runs the host's
// commands, and rping on the iWARP provider.
//
//	agent serve HOST:PORT
//	agent client ADDR:PORT SIZE...     pings a server, CRC off
//	agent server ADDR:PORT CLIENTS     serves that many clients, CRC off
package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"lwio/integration/guest"
	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

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
	addr, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return err
	}
	numbers := make([]int, len(args)-2)
	for i, s := range args[2:] {
		if numbers[i], err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	a, err := iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff, SegmentAtMSS: true}).OpenAdapter(ctx, addr.Addr())
	if err != nil {
		return err
	}
	defer a.Close()
	to := rdma.IPAddr(iwarp.Name, addr)
	switch args[0] {
	case "client":
		return rping.Client(ctx, a, to, rping.ClientConfig{Sizes: numbers, Pause: 50 * time.Millisecond})
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
