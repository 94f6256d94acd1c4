package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

// host is the server's process.
type host struct {
	dir, addr, password string
	cmd                 *exec.Cmd
	in                  io.WriteCloser
	out                 *bufio.Reader
}

// passwordVariable has the password of the server's process. Other users of the host could read it on a
// command line.
const passwordVariable = "LWIO_SOAK_PASSWORD"

// newHost starts the server in directories of its own.
func newHost(seed uint64, password, dir string) (*host, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &host{password: password}
	if h.dir, err = os.MkdirTemp(dir, "lwio-soak-"); err != nil {
		return nil, err
	}
	args := []string{"-serve", "-seed", fmt.Sprint(seed)}
	for _, name := range shares {
		args = append(args, filepath.Join(h.dir, name))
		if err := os.Mkdir(args[len(args)-1], 0o700); err != nil {
			return nil, errors.Join(err, os.RemoveAll(h.dir))
		}
	}
	h.cmd = exec.Command(self, args...)
	h.cmd.Env = append(os.Environ(), passwordVariable+"="+password)
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err == nil {
		var out io.Reader
		if out, err = h.cmd.StdoutPipe(); err == nil {
			h.out = bufio.NewReader(out)
			err = h.cmd.Start()
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.dir))
	}
	if h.addr, err = h.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("no address from the server: %w", err), h.close())
	}
	return h, nil
}

// footprint asks the server for its footprint.
func (h *host) footprint() (f footprint, err error) {
	if _, err = io.WriteString(h.in, "\n"); err != nil {
		return f, err
	}
	line, err := h.out.ReadBytes('\n')
	if err != nil {
		return f, fmt.Errorf("no footprint from the server: %w", err)
	}
	return f, json.Unmarshal(line, &f)
}

func (h *host) signal(sig os.Signal) {
	_ = h.cmd.Process.Signal(sig) // a server that has ended is noticed by its clients
}

// close ends the server and removes its files.
func (h *host) close() error {
	h.in.Close()
	timer := time.AfterFunc(30*time.Second, func() { _ = h.cmd.Process.Signal(syscall.SIGQUIT) })
	defer timer.Stop()
	err := h.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("the server: %w", err)
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}

// longest bounds the time of a call.
const longest = 90 * time.Second

// watch ends the program if a call does not end.
type watch struct {
	mu    sync.Mutex
	calls map[*call]struct{}
	done  chan struct{}
	over  sync.WaitGroup
}

// call is a call in progress.
type call struct {
	what  string
	began time.Time
}

func (w *watch) start(h *host) {
	w.calls, w.done = make(map[*call]struct{}), make(chan struct{})
	w.over.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
			}
			if c := w.stuck(); c != nil {
				fmt.Fprintf(os.Stderr, "soak: %s does not end in %v\n", c.what, longest)
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
				h.signal(syscall.SIGCONT)
				h.signal(syscall.SIGQUIT)
				_ = h.cmd.Wait() // it prints its goroutines
				os.Exit(1)
			}
		}
	})
}

func (w *watch) stuck() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls {
		if time.Since(c.began) > longest {
			return c
		}
	}
	return nil
}

func (w *watch) stop() {
	close(w.done)
	w.over.Wait()
}

// do makes a call under watch.
func (w *watch) do(what string, f func() error) error {
	c := &call{what, time.Now()}
	w.mu.Lock()
	w.calls[c] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.calls, c)
		w.mu.Unlock()
	}()
	return f()
}
