package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The addresses behind a Router: its own, and that of the other side. They are of a network for documentation,
// RFC 5737.
const (
	translated = "198.51.100.1"
	Beyond     = "198.51.100.2"
	within     = "192.0.2.254" // of the router, on the side of this namespace
)

// The times after which the router forgets a TCP connection without packets, in seconds: by default, and while it
// forgets connections.
const (
	longMemory  = 432_000
	shortMemory = 1
)

// Router is a translator of addresses (NAT) in a network namespace of its own, between this namespace and another one.
// The other side sees the address of the router. The router drops packets of connections that it does not know. Its
// methods are called by one goroutine at a time. The process must be Inside.
type Router struct{ middle, end *exec.Cmd } // processes of the namespaces

// NewRouter makes the router, and the namespace behind it with the address Beyond. Only one Router or Link exists at a
// time. The caller closes it.
//
// Errors: errors.ErrUnsupported if the kernel does not translate addresses, or does not let the process ask for it.
func NewRouter() (*Router, error) {
	r := &Router{middle: exec.Command("sleep", "infinity"), end: exec.Command("sleep", "infinity")}
	for _, holder := range []*exec.Cmd{r.middle, r.end} {
		holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := holder.Start(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	for _, args := range [][]string{
		r.in("nft", "add", "table", "ip", "router"),
		r.in("nft", "add", "chain", "ip", "router", "translate", "{ type nat hook postrouting priority 100 ; }"),
		r.in("nft", "add", "rule", "ip", "router", "translate", "oifname", "outside", "masquerade"),
		r.in("nft", "add", "chain", "ip", "router", "pass", "{ type filter hook forward priority 0 ; }"),
		r.in("nft", "add", "rule", "ip", "router", "pass", "ct", "state", "invalid", "drop"),
	} {
		if err := command(args...); err != nil {
			return nil, errors.Join(errors.ErrUnsupported, err, r.Close())
		}
	}
	for _, args := range [][]string{
		{"ip", "link", "add", "near", "type", "veth", "peer", "name", "inside", "netns", pid(r.middle)},
		{"ip", "address", "add", Near + "/24", "dev", "near"},
		{"ip", "link", "set", "near", "up"},
		r.in("ip", "link", "add", "outside", "type", "veth", "peer", "name", "far", "netns", pid(r.end)),
		r.in("ip", "address", "add", within+"/24", "dev", "inside"),
		r.in("ip", "address", "add", translated+"/24", "dev", "outside"),
		r.in("ip", "link", "set", "inside", "up"),
		r.in("ip", "link", "set", "outside", "up"),
		append(r.Prefix(), "ip", "address", "add", Beyond+"/24", "dev", "far"),
		append(r.Prefix(), "ip", "link", "set", "far", "up"),
		append(r.Prefix(), "ip", "link", "set", "lo", "up"),
		{"ip", "route", "add", Beyond + "/32", "via", within},
	} {
		if err := command(args...); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	// A packet in the middle of an unknown connection makes no entry.
	err := errors.Join(r.set("net/ipv4/ip_forward", 1), r.set("net/netfilter/nf_conntrack_tcp_loose", 0), r.remember(longMemory))
	if err != nil {
		return nil, errors.Join(errors.ErrUnsupported, err, r.Close())
	}
	return r, nil
}

// Prefix is a command that runs another one in the namespace behind the router.
func (r *Router) Prefix() []string { return enter(r.end) }

// in is a command in the namespace of the router.
func (r *Router) in(args ...string) []string { return append(enter(r.middle), args...) }

func enter(holder *exec.Cmd) []string {
	return []string{"nsenter", "--net=" + filepath.Join("/proc", pid(holder), "ns/net")}
}

func pid(holder *exec.Cmd) string { return strconv.Itoa(holder.Process.Pid) }

// set sets a number of the kernel for the namespace of the router.
func (r *Router) set(name string, value int) error {
	return command(r.in("sh", "-c", fmt.Sprintf("echo %d > /proc/sys/%s", value, name))...)
}

// remember sets the time after which the router forgets connections without packets.
func (r *Router) remember(seconds int) error {
	return r.set("net/netfilter/nf_conntrack_tcp_timeout_established", seconds)
}

// Expire waits until the router has forgotten all TCP connections, which have no packets for a second. Later
// connections stay.
//
// Errors: the cause of ctx.
func (r *Router) Expire(ctx context.Context) error {
	if err := r.remember(shortMemory); err != nil {
		return err
	}
	for {
		args := r.in("cat", "/proc/net/nf_conntrack")
		known, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("connections of the router: %w", err)
		case !strings.Contains(string(known), "ESTABLISHED"):
			return r.remember(longMemory)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Close removes the namespaces. Processes behind the router lose their network.
func (r *Router) Close() error {
	var errs []error
	for _, holder := range []*exec.Cmd{r.middle, r.end} {
		if holder.Process == nil {
			continue
		}
		errs = append(errs, holder.Process.Kill())
		_ = holder.Wait() // killed
	}
	_ = command("ip", "link", "delete", "near") // it may be gone with the other end
	return errors.Join(errs...)
}
