package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"lwio"
	"lwio/integration/internal/measure"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// flood measures how many clients a server serves, and how fast, while unauthenticated peers connect. A client logs on,
// connects over iWARP, reads a block, and closes. It makes one attempt.
type flood struct {
	Clients int           // honest clients
	Peers   int           // attempts of unauthenticated peers in a second; 0 is a quiet server
	Lead    time.Duration // time of unauthenticated peers before the first client
	// Apart gives each client an address of its own, from which no user has logged on. Without it all clients have
	// one address, from which one has logged on before.
	Apart bool
	// Guess makes peers guess the password of the clients' user. Without it they guess one of another user. The
	// server locks a user that peers guess out, except at addresses from which the user has logged on.
	Guess bool
}

const (
	// floodWidth is the number of clients at a time.
	floodWidth = 16
	// floodPatience bounds the time of a run. Clients that have not begun by then are not served.
	floodPatience = 2 * time.Minute
	// clientPatience bounds the time of a client.
	clientPatience = 30 * time.Second
)

// Run makes the clients' attempts at a server of its own.
func (j flood) Run(ctx context.Context, l *measure.Lab) (_ measure.Sample, err error) {
	name, err := makeFile(l, false)
	if err != nil {
		return nil, err
	}
	key := serverKey(binary(l), l.Server, false)
	if err := l.Drop(key); err != nil {
		return nil, err
	}
	l.Silent = true // the server logs attempts of unauthenticated peers
	s, err := server(l, binary(l), l.Server, false)
	l.Silent = false
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Drop(key)) }()
	ctx, cancel := context.WithTimeout(ctx, floodPatience)
	defer cancel()
	var peers *floodPeers
	if j.Peers > 0 {
		if peers, err = gather(ctx, s.At, filepath.Base(name), j.Guess); err != nil {
			return nil, err
		}
		peers.start(ctx, j.Peers)
		defer peers.stop()
		select {
		case <-time.After(j.Lead):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	begin := time.Now()
	times, failed := j.serve(ctx, s.At, filepath.Base(name))
	took := time.Since(begin)
	if len(times) == 0 {
		return nil, fmt.Errorf("no client of %d was served: %w", j.Clients, failed)
	}
	if failed != nil {
		fmt.Fprintf(os.Stderr, "figures: flood: %d clients of %d were not served, the first: %v\n", j.Clients-len(times), j.Clients, failed)
	}
	sample := floodSample(times, took)
	if peers != nil {
		sample[measure.PeerRate] = peers.rate()
	}
	return sample, nil
}

// floodSample has the figures of clients that were served, of which there is at least one.
func floodSample(times []time.Duration, took time.Duration) measure.Sample {
	slices.Sort(times)
	return measure.Sample{
		measure.Served: float64(len(times)), measure.Rate: float64(len(times)) / took.Seconds(),
		measure.P50: float64(times[len(times)/2]), measure.P99: float64(times[len(times)*99/100]),
	}
}

// serve makes the attempts of all clients. It returns the times of those that succeeded, and an error of one that failed.
func (j flood) serve(ctx context.Context, at, name string) (times []time.Duration, failed error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range floodWidth {
		wg.Go(func() {
			for i := w; i < j.Clients; i += floodWidth {
				begin := time.Now()
				err := j.client(ctx, at, name, i)
				took := time.Since(begin)
				mu.Lock()
				if err == nil {
					times = append(times, took)
				} else if failed == nil {
					failed = fmt.Errorf("client %d: %w", i, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return times, failed
}

// client is the attempt of one client.
func (j flood) client(ctx context.Context, at, name string, i int) error {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	from := net.IPv4(127, 0, 0, 1)
	if j.Apart {
		from = net.IPv4(127, 1, byte(i>>8), byte(i))
	}
	c, err := readFrom(ctx, at, name, from)
	if err != nil {
		return err
	}
	return c.Close()
}

// readFrom connects from an address, over iWARP, and reads a block.
func readFrom(ctx context.Context, at, name string, from net.IP) (*lwio.Client, error) {
	provider := iwarp.New(&iwarp.Config{Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		return dialFrom(ctx, from, remote.String())
	}})
	return readBlock(ctx, at, name, &lwio.Config{
		RequireRDMA: true, Providers: []rdma.Provider{provider}, ReconnectTimeout: -1,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dialFrom(ctx, from, addr) },
	})
}

// dialFrom connects from an address of the loopback network.
func dialFrom(ctx context.Context, from net.IP, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	return d.DialContext(ctx, "tcp", addr)
}

// wrongPassword returns a URL with another password, of the same user or of one that does not exist.
func wrongPassword(at string, sameUser bool) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	user := "other"
	if sameUser {
		user = u.User.Username()
	}
	u.User = url.UserPassword(user, "wrong")
	return u.String(), nil
}
