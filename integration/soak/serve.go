package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"lwio"
	"lwio/rdma/rdmatest/fault"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// chances are the faults of the requests of both sides.
var chances = fault.Chances{Cut: 0.0002, Fail: 0.00005, Delay: 0.002, MaxDelay: 2 * time.Millisecond}

// The shares, and their user.
const user = "soak"

var shares = []string{"one", "two"}

// serve is the server's process. It serves the directories, one share each, and prints its
// address. For each line of its input it prints a footprint. It ends with its input.
func serve(seed uint64, password string, dirs []string) error {
	cfg := server.Config{
		Lookup: server.Users{user: password}.Lookup,
		Limits: server.Limits{Credits: 4, MaxCredits: 64, CreditBudget: 96, MaxRecvBufferSize: 16 << 10, MaxRDMAWindowSize: 128 << 10},
	}
	for _, p := range lwio.DefaultProviders() {
		cfg.Providers = append(cfg.Providers, fault.Wrap(p, &fault.Config{Fault: spared(fault.Random(seed, chances))}))
	}
	var list []vfs.Share
	for i, dir := range dirs {
		b, err := posix.OpenDir(dir)
		if err != nil {
			return err
		}
		list = append(list, vfs.Share{Name: shares[i], Backend: b})
	}
	var err error
	if cfg.FS, err = vfs.New(vfs.Config{Shares: list}); err != nil {
		return err
	}
	defer cfg.FS.Close()
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), l) }()
	fmt.Println(l.Addr())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f, err := idleFootprint(s)
		if err != nil {
			return err
		}
		b, err := json.Marshal(f)
		if err != nil {
			return err
		}
		fmt.Println(string(b))
	}
	if err := s.Close(); err != nil {
		return err
	}
	return <-done
}

// idleFootprint returns the footprint after the last connection has ended.
func idleFootprint(s *server.Server) (footprint, error) {
	for end := time.Now().Add(longest); len(s.Connections()) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return settledFootprint()
}

// spared makes no faults in the first requests of each connection, so that each does some
// work.
func spared(decide func(fault.Attempt) fault.Action) func(fault.Attempt) fault.Action {
	return func(a fault.Attempt) fault.Action {
		if a.N < 20 {
			return fault.Pass()
		}
		return decide(a)
	}
}

// urlOf returns the URL of a share.
func urlOf(addr, password, share, provider string) string {
	u := url.URL{Scheme: lwio.Scheme, User: url.UserPassword(user, password), Host: strings.TrimSpace(addr), Path: "/" + share}
	if provider != "" {
		u.RawQuery = "provider=" + provider
	}
	return u.String()
}
