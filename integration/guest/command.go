package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// event is a report of the agent about a command: some of its output, or its end.
type event struct {
	Output string `json:",omitempty"`
	Ended  bool   `json:",omitempty"`
	Status int    `json:",omitempty"`
}

// Command is a command that runs in the guest.
type Command struct {
	conn  *net.TCPConn
	ended chan struct{}

	mu     sync.Mutex
	output strings.Builder
	status int
	err    error
}

// Begin starts a command. The caller waits for it or kills it.
func (g *Guest) Begin(ctx context.Context, argv ...string) (*Command, error) {
	var c *net.TCPConn
	select {
	case c = <-g.agents:
	case <-g.ended:
		return nil, g.err
	case <-ctx.Done():
		return nil, fmt.Errorf("guest: wait for an agent: %w", ctx.Err())
	}
	if err := json.NewEncoder(c).Encode(argv); err != nil {
		c.Close()
		return nil, fmt.Errorf("guest: %s: %w", argv[0], err)
	}
	cmd := &Command{conn: c, ended: make(chan struct{})}
	go cmd.follow()
	return cmd, nil
}

// follow notes the reports of the agent.
func (c *Command) follow() {
	defer close(c.ended)
	defer c.conn.Close()
	events := json.NewDecoder(c.conn)
	for {
		var e event
		err := events.Decode(&e)
		c.mu.Lock()
		c.output.WriteString(e.Output)
		c.status, c.err = e.Status, err
		c.mu.Unlock()
		if err != nil || e.Ended {
			return
		}
	}
}

// Output is the output so far, of both streams.
func (c *Command) Output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

// Ended is closed at the end of the command.
func (c *Command) Ended() <-chan struct{} { return c.ended }

// Wait waits for the end of the command and returns its output.
//
// Errors: the exit status of the command; the end of ctx, which kills the command.
func (c *Command) Wait(ctx context.Context) (output string, err error) {
	select {
	case <-c.ended:
	case <-ctx.Done():
		c.Kill()
		return c.Output(), fmt.Errorf("guest: killed: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		err = fmt.Errorf("guest: command lost: %w", c.err)
	case c.status != 0:
		err = fmt.Errorf("guest: exit status %d", c.status)
	}
	return c.output.String(), err
}

// killTime bounds the wait of Kill for the guest.
const killTime = time.Minute

// Kill kills the command. It returns when the command has ended and its resources are free,
// or when the guest does not report that in time.
func (c *Command) Kill() {
	defer time.AfterFunc(killTime, func() { c.conn.Close() }).Stop()
	_ = c.conn.CloseWrite() // the agent kills the command at the end of its input
	<-c.ended
}

// Run runs a command to its end.
func (g *Guest) Run(ctx context.Context, argv ...string) (output string, err error) {
	c, err := g.Begin(ctx, argv...)
	if err != nil {
		return "", err
	}
	output, err = c.Wait(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, output)
	}
	return output, err
}

// agentPorts is the first port of the agent. It is below the ports that the kernel chooses:
// rdma_cm and TCP choose ports independently, and rdma_cm fails on a port that TCP still
// remembers.
const agentPorts = 10000

// DialFrom makes a TCP connection in the guest from the given port. The caller uses each
// port once.
func DialFrom(ctx context.Context, port int, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
	return d.DialContext(ctx, "tcp", to)
}

// Agent runs inside the guest. It takes commands from the host's Guest at addr, any number
// at a time, until the connection is lost.
func Agent(addr string) error {
	for port := agentPorts; ; port++ {
		c, err := DialFrom(context.Background(), port, addr)
		if err != nil {
			return err
		}
		var argv []string
		if err := json.NewDecoder(c).Decode(&argv); err != nil || len(argv) == 0 {
			c.Close()
			return errors.Join(errors.New("guest: the host is gone"), err)
		}
		go serve(c, argv)
	}
}

// serve runs one command; the end of the connection kills it.
func serve(c net.Conn, argv []string) {
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, c)
	}()
	out := &reporter{events: json.NewEncoder(c)}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	status := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		status = exit.ExitCode()
	case err != nil:
		_, _ = io.WriteString(out, err.Error())
		status = 127
	}
	_ = out.events.Encode(event{Ended: true, Status: status})
}

// reporter sends output to the host. The command's two streams are one writer, which
// os/exec uses from one goroutine.
type reporter struct{ events *json.Encoder }

func (r *reporter) Write(p []byte) (int, error) {
	if err := r.events.Encode(event{Output: string(p)}); err != nil {
		return 0, err
	}
	return len(p), nil
}
