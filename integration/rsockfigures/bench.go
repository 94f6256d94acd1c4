package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"lwio/integration/internal/measure"
)

// ping sends a message and waits for its echo.
func (s *side) ping() error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, s.Size)
	return s.phases(func(ops int) error {
		for range ops {
			if err := s.turn(c, buf); err != nil {
				return err
			}
		}
		return nil
	})
}

// turn is one message and its echo, as either side sees it.
func (s *side) turn(c net.Conn, buf []byte) error {
	if s.Active {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if !s.Active {
		_, err := c.Write(buf)
		return err
	}
	return nil
}

// stream sends in one direction, and waits for one byte at the end.
func (s *side) stream() error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	buf, one := make([]byte, s.Size), make([]byte, 1)
	move, last := func() (int, error) { return io.ReadFull(c, buf) }, func() (int, error) { return c.Write(one) }
	if s.Active {
		move, last = func() (int, error) { return c.Write(buf) }, func() (int, error) { return io.ReadFull(c, one) }
	}
	return s.phases(func(ops int) error {
		for range ops {
			if _, err := move(); err != nil {
				return err
			}
		}
		_, err := last()
		return err
	})
}

// http sends bodies to a server that sends them back.
func (s *side) http() error {
	if !s.Active {
		return s.serveHTTP()
	}
	tr := &http.Transport{
		MaxIdleConnsPerHost: s.Conns, MaxConnsPerHost: s.Conns, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
	}
	client := &http.Client{Transport: tr}
	body := make([]byte, s.Size)
	post := func(path string, body []byte) error {
		resp, err := client.Post("http://server"+path, "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && int(n) != len(body) {
			err = fmt.Errorf("%d bytes came back", n)
		}
		return err
	}
	err := s.phases(func(ops int) error {
		errs := make([]error, s.Conns+2)
		errs[0] = post("/mark", nil)
		var wg sync.WaitGroup
		for i := range s.Conns {
			wg.Go(func() {
				for range ops / s.Conns {
					if err := post("/", body); err != nil {
						errs[i+1] = err
						return
					}
				}
			})
		}
		wg.Wait()
		errs[s.Conns+1] = post("/mark", nil)
		return errors.Join(errs...)
	})
	tr.CloseIdleConnections()
	s.outcome.Ops = s.Count / s.Conns * s.Conns
	return err
}

// serveHTTP is the server, until the fourth mark: the CPU time between the last two is what
// the measured requests took.
func (s *side) serveHTTP() error {
	const marks = 4
	var cpu []time.Duration
	var srv http.Server
	var wg sync.WaitGroup
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mark" {
			if cpu = append(cpu, measure.SelfCPU()); len(cpu) == marks {
				wg.Go(func() { _ = srv.Shutdown(context.Background()) })
			}
			return
		}
		b := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, b); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	})
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	wg.Wait()
	s.outcome = outcome{Ops: s.Count, CPU: cpu[marks-1] - cpu[marks-2]}
	return nil
}

// What goes through a connection before it rests, in each direction, and for how long that
// is: messages of several sizes one after the other, without an answer, and large writes.
const (
	heavyMessages = 64
	heavyMessage  = 16 << 10
	heavyWrites   = 4
	heavyWrite    = 1 << 20
	heavyRest     = 6 * time.Second
)

// use uses a connection once, or much.
func (s *side) use(c net.Conn, buf []byte) error {
	if !s.Heavy {
		return s.turn(c, buf)
	}
	send := func() error {
		p := make([]byte, heavyWrite)
		for i := range heavyMessages {
			for _, n := range []int{heavyMessage, 1 + i*heavyMessage/heavyMessages} {
				if _, err := c.Write(p[:n]); err != nil {
					return err
				}
			}
		}
		for range heavyWrites {
			if _, err := c.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	receive := func() error {
		total := int64(heavyWrites * heavyWrite)
		for i := range heavyMessages {
			total += heavyMessage + int64(1+i*heavyMessage/heavyMessages)
		}
		_, err := io.CopyN(io.Discard, struct{ io.Reader }{c}, total)
		return err
	}
	steps := []func() error{receive, send}
	if s.Active {
		steps = []func() error{send, receive}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return s.turn(c, buf)
}

// idle makes many connections, uses each, and sees what they cost in memory.
func (s *side) idle() error {
	first, err := s.connect()
	if err != nil {
		return err
	}
	defer first.Close()
	buf := make([]byte, s.Size)
	if err := s.use(first, buf); err != nil {
		return err
	}
	before := resident()
	var wg sync.WaitGroup
	conns := make([]net.Conn, s.Conns)
	errs := make([]error, s.Conns)
	for i := range conns {
		if conns[i], err = s.connect(); err != nil {
			return err
		}
		if s.Active {
			if err := s.use(conns[i], buf); err != nil {
				return err
			}
			continue
		}
		wg.Go(func() { // which then waits for more, as servers do
			own := make([]byte, s.Size)
			errs[i] = s.use(conns[i], own)
			_, _ = conns[i].Read(own)
		})
	}
	if err := s.turn(first, buf); err != nil { // all are there
		return err
	}
	if s.Heavy {
		time.Sleep(heavyRest)
	}
	s.outcome = outcome{Ops: s.Conns, Memory: resident() - before}
	if err := s.turn(first, buf); err != nil { // both have looked
		return err
	}
	for _, c := range conns {
		c.Close()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// resident is the memory of this process, without what is garbage.
func resident() int64 {
	debug.FreeOSMemory()
	return measure.Resident(os.Getpid())
}
