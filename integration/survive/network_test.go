package survive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/sandbox"
	"lwio/integration/internal/supervise"
	"lwio/internal/test/skip"
)

// The ports of the server at the other end of a link.
const (
	smbPort  = 4450
	rdmaPort = 4451
)

// farServer starts a server at the other end of a link.
func farServer(t *testing.T) (*sandbox.Link, *supervise.Server, string) {
	t.Helper()
	if !sandbox.Inside() {
		skip.Test(t, "no right to make namespaces")
	}
	link, err := sandbox.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	s, err := supervise.New(supervise.Config{
		Binary: lwioBin, Dir: dir, Prefix: link.Prefix(), Log: testLog{t}, Listen: net.JoinHostPort(sandbox.Far, strconv.Itoa(smbPort)),
		Flags: []string{"--insecure-network", "--provider", "iwarp", "--rdma-listen", net.JoinHostPort(sandbox.Far, strconv.Itoa(rdmaPort))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return link, s, dir
}

// outage is a time without packets.
const outage = 700 * time.Millisecond

// TestShortOutagesFailNoCall takes the link down, or drops the packets of one direction, for less time than a dead
// peer is noticed in. Clients over iWARP and over SMB alone see a pause, and no error.
func TestShortOutagesFailNoCall(t *testing.T) {
	link, s, dir := farServer(t)
	drop := func(d sandbox.Direction, ports ...int) func() error {
		return func() (err error) {
			for _, port := range ports {
				err = errors.Join(err, link.Drop(d, port))
			}
			return err
		}
	}
	for i, c := range []struct {
		name         string
		breaks, ends func() error
	}{
		{"link down", link.Down, link.Up},
		{"nothing arrives at the client", drop(sandbox.In, smbPort, rdmaPort), link.Heal},
		{"nothing arrives at the server", drop(sandbox.Out, smbPort, rdmaPort), link.Heal},
		{"no RDMA", drop(sandbox.Out, rdmaPort), link.Heal},
		{"no SMB", drop(sandbox.In, smbPort), link.Heal},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := farTeam(t, s, dir, 2*i)
			work.start()
			for range 2 {
				if err := work.progress(3); err != nil {
					t.Fatal(err)
				}
				if err := c.breaks(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(outage + rand.N(mostDelay))
				if err := c.ends(); err != nil {
					t.Fatal(err)
				}
			}
			if err := work.progress(3); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLostConnectionsAreReplaced breaks connections without a sign to either side: the link is down for longer than
// dead peers are noticed in, the packets of one direction are lost, or a translator of addresses forgets the
// connections of SMB, of RDMA, or both. Clients see a pause, and no error.
//
// Source: [OP-42], [OP-112]
func TestLostConnectionsAreReplaced(t *testing.T) {
	const longer = 12 * time.Second
	link, s, dir := farServer(t)
	forget := func(ports ...int) func() error {
		return func() (err error) {
			for _, port := range ports {
				err = errors.Join(err, link.Forget(port))
			}
			return err
		}
	}
	for i, c := range []struct {
		name   string
		breaks func() error
		lasts  time.Duration
		ends   func() error
	}{
		{"link down", link.Down, longer, link.Up},
		{"nothing arrives at the client", func() error { return errors.Join(link.Drop(sandbox.In, smbPort), link.Drop(sandbox.In, rdmaPort)) }, longer, link.Heal},
		{"nothing arrives at the server", func() error { return errors.Join(link.Drop(sandbox.Out, smbPort), link.Drop(sandbox.Out, rdmaPort)) }, longer, link.Heal},
		{"SMB is forgotten", forget(smbPort), 0, link.Heal},
		{"RDMA is forgotten", forget(rdmaPort), 0, link.Heal},
		{"both are forgotten", forget(smbPort, rdmaPort), 0, link.Heal},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := farTeam(t, s, dir, 100+2*i)
			for _, w := range work.members {
				w.keepAlive = time.Second
			}
			work.start()
			if err := work.progress(3); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := c.breaks(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.lasts)
			if c.lasts > 0 {
				if err := c.ends(); err != nil {
					t.Fatal(err)
				}
			}
			if err := work.progress(3); err != nil {
				t.Fatal(err)
			}
			t.Logf("all clients go on after %v", time.Since(begin).Round(time.Millisecond))
			if err := errors.Join(work.end(), c.ends(), work.checkAtRest(directory(dir))); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// farTeam makes a lossless worker over iWARP and one over SMB.
func farTeam(t *testing.T, s *supervise.Server, dir string, number int) *team {
	t.Helper()
	work := &team{}
	for j, transport := range []string{"iwarp", lwio.TransportSMB} {
		w, err := newWorker(s, directory(dir), number+j, transport, new(durations))
		if err != nil {
			t.Fatal(err)
		}
		w.lossless = true
		work.members = append(work.members, w)
	}
	t.Cleanup(func() {
		if err := work.end(); err != nil {
			t.Error(err)
		}
		t.Log(work.members)
	})
	return work
}

// TestRDMAGoesOnWithoutSMB drops all packets of SMB: reads and writes over RDMA are answered meanwhile.
func TestRDMAGoesOnWithoutSMB(t *testing.T) {
	link, s, _ := farServer(t)
	c := connect(t, s, "iwarp")
	f, err := c.Create(t.Context(), "file")
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(i byte) error {
		p := []byte{i}
		if _, err := f.WriteAt(p, int64(i)); err != nil {
			return err
		}
		if _, err := f.ReadAt(p, int64(i)); err != nil || p[0] != i {
			return fmt.Errorf("%v, %w", p, err)
		}
		return nil
	}
	if err := exchange(0); err != nil {
		t.Fatal(err)
	}
	before := c.Stats().SMB
	if err := errors.Join(link.Drop(sandbox.In, smbPort), link.Drop(sandbox.Out, smbPort)); err != nil {
		t.Fatal(err)
	}
	for i := range byte(100) {
		if err := exchange(i); err != nil {
			t.Fatal(err)
		}
	}
	if after := c.Stats().SMB; after != before {
		t.Errorf("traffic of SMB: %+v, then %+v", before, after)
	}
	if err := link.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(t.Context()), f.Close()); err != nil {
		t.Error(err)
	}
}
