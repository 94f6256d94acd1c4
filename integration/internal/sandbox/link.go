package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The addresses of a Link. They are of a network for documentation, RFC 5737.
const (
	Near = "192.0.2.1"
	Far  = "192.0.2.2"
)

// Link is a cable to another network namespace. Its methods are called by one goroutine at a time. The process
// must be Inside.
type Link struct {
	holder *exec.Cmd // a process of the other namespace
}

// NewLink makes a network namespace with the address Far, and a link to it from this one with the address
// Near. Only one Link exists at a time. The caller closes it.
func NewLink() (*Link, error) {
	l := &Link{holder: exec.Command("sleep", "infinity")}
	l.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := l.holder.Start(); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", strconv.Itoa(l.holder.Process.Pid)},
		{"ip", "address", "add", Near + "/24", "dev", "near"},
		{"ip", "link", "set", "near", "up"},
		l.far("ip", "address", "add", Far+"/24", "dev", "far"),
		l.far("ip", "link", "set", "far", "up"),
		l.far("ip", "link", "set", "lo", "up"),
		{"nft", "add", "table", "inet", "link"},
		{"nft", "add", "chain", "inet", "link", "in", "{ type filter hook input priority 0 ; }"},
		{"nft", "add", "chain", "inet", "link", "out", "{ type filter hook output priority 0 ; }"},
	} {
		if err := command(args...); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// Prefix is a command that runs another one in the other namespace.
func (l *Link) Prefix() []string {
	return []string{"nsenter", "--net=" + filepath.Join("/proc", strconv.Itoa(l.holder.Process.Pid), "ns/net")}
}

func (l *Link) far(args ...string) []string { return append(l.Prefix(), args...) }

// Down takes the link down, as if the cable were pulled. Up ends that.
func (l *Link) Down() error { return command("ip", "link", "set", "near", "down") }

// Up takes the link up again.
func (l *Link) Up() error { return command("ip", "link", "set", "near", "up") }

// Direction is the direction of packets, from here.
type Direction string

// The directions.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// Drop drops the packets of one direction to or from a TCP port of the other side, until Heal.
func (l *Link) Drop(d Direction, port int) error {
	side := "sport"
	if d == Out {
		side = "dport"
	}
	return command("nft", "add", "rule", "inet", "link", string(d), "tcp", side, strconv.Itoa(port), "drop")
}

// Forget drops all packets of the TCP connections that exist to a port of the other side, as a translator of
// addresses does that has no entry for them. New connections work.
func (l *Link) Forget(port int) error {
	out, err := exec.Command("ss", "-tnH", "state", "established", "dport", "=", ":"+strconv.Itoa(port)).Output()
	if err != nil {
		return fmt.Errorf("ss: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // bytes to receive, bytes to send, local and remote address
		if len(fields) < 4 {
			return fmt.Errorf("ss: %q", line)
		}
		own := fields[2][strings.LastIndexByte(fields[2], ':')+1:]
		err := errors.Join(command("nft", "add", "rule", "inet", "link", "in", "tcp", "dport", own, "drop"),
			command("nft", "add", "rule", "inet", "link", "out", "tcp", "sport", own, "drop"))
		if err != nil {
			return err
		}
	}
	return nil
}

// Heal ends the rules of Drop and Forget.
func (l *Link) Heal() error { return command("nft", "flush", "table", "inet", "link") }

// Close removes the link and the rules. Processes of the other namespace lose their network.
func (l *Link) Close() error {
	err := l.holder.Process.Kill()
	_ = l.holder.Wait() // killed
	_ = command("ip", "link", "delete", "near")
	_ = command("nft", "delete", "table", "inet", "link")
	return err
}

func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
