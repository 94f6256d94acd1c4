package sides

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
	"lwio/internal/host"
)

// ping sends a message and waits for its echo.
func (s *side) ping() error {
	return s.withConn(func(c io.ReadWriter) error {
		buf := make([]byte, s.Size)
		return s.phases(func(ops int) error {
			for range ops {
				if err := s.echo(c, buf); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// echo is one message and its echo, on either side.
func (s *side) echo(c io.ReadWriter, buf []byte) error {
	return s.turn(
		func() error { _, err := c.Write(buf); return err },
		func() error { _, err := io.ReadFull(c, buf); return err },
	)
}

// stream sends in one direction, Batch operations by one call, through the buffers of the
// job. The receiver answers the end by one byte.
func (s *side) stream() error {
	return s.withConn(func(c io.ReadWriter) error {
		mem := filled(make([]byte, s.Size*max(s.Buffers, 1)))
		chunk, one := s.Size*max(s.Batch, 1), make([]byte, 1)
		return s.phases(func(ops int) error {
			if s.Active {
				return sendAll(c, mem, chunk, ops*s.Size, one)
			}
			return receiveAll(c, mem, ops*s.Size, one)
		})
	})
}

// sendAll writes total bytes in chunks and waits for the answer.
func sendAll(c io.ReadWriter, mem []byte, chunk, total int, answer []byte) error {
	for at := 0; total > 0; at = (at + chunk) % len(mem) {
		n, err := c.Write(mem[at : at+min(chunk, total)])
		if err != nil {
			return err
		}
		total -= n
	}
	_, err := io.ReadFull(c, answer)
	return err
}

// receiveAll reads total bytes into the memory, again from its start when it is full, and
// answers.
func receiveAll(c io.ReadWriter, mem []byte, total int, answer []byte) error {
	for at := 0; total > 0; {
		n, err := c.Read(mem[at:min(at+total, len(mem))])
		if err != nil {
			return err
		}
		total -= n
		if at += n; at == len(mem) {
			at = 0
		}
	}
	_, err := c.Write(answer)
	return err
}

// http sends bodies to a server that sends them back.
func (s *side) http() error {
	if !s.Active {
		return s.serveHTTP()
	}
	dial, err := s.dial()
	if err != nil {
		return err
	}
	tr := &http.Transport{
		MaxIdleConnsPerHost: s.Conns, MaxConnsPerHost: s.Conns, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
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
	err = s.phases(func(ops int) error {
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

// serveHTTP is the server, until the fourth mark. The CPU time between the last two marks
// is the time of the measured requests.
func (s *side) serveHTTP() error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	const marks = 4
	var cpu []time.Duration
	var srv http.Server
	var wg sync.WaitGroup
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mark" {
			if cpu = append(cpu, host.CPUTime()); len(cpu) == marks {
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
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	wg.Wait()
	s.outcome = outcome{Ops: s.Count, CPU: cpu[marks-1] - cpu[marks-2]}
	return nil
}

// The data of a heavy connection before it is idle, in each direction: messages of several
// sizes one after the other, without an answer, and large writes.
const (
	heavyMessages = 64
	heavyMessage  = 16 << 10
	heavyWrites   = 4
	heavyWrite    = 1 << 20
	heavyIdle     = 6 * time.Second
)

// use sends one message over a connection, or much data in a heavy job.
func (s *side) use(c net.Conn, buf []byte) error {
	if !s.Heavy {
		return s.echo(c, buf)
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
	return s.echo(c, buf)
}

// idle makes many connections, uses each, and measures their memory.
func (s *side) idle() error {
	connect, err := s.connector()
	if err != nil {
		return err
	}
	first, err := connect()
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
		if conns[i], err = connect(); err != nil {
			return err
		}
		if s.Active {
			if err := s.use(conns[i], buf); err != nil {
				return err
			}
			continue
		}
		wg.Go(func() { // then wait for more, as servers do
			own := make([]byte, s.Size)
			errs[i] = s.use(conns[i], own)
			_, _ = conns[i].Read(own)
		})
	}
	if err := s.echo(first, buf); err != nil { // all are connected
		return err
	}
	if s.Heavy {
		time.Sleep(heavyIdle)
	}
	s.outcome = outcome{Ops: s.Conns, Memory: resident() - before}
	if err := s.echo(first, buf); err != nil { // both have measured
		return err
	}
	for _, c := range conns {
		c.Close()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// resident is the memory of this process after a garbage collection, in bytes.
func resident() int64 {
	debug.FreeOSMemory()
	return measure.Resident(os.Getpid())
}
