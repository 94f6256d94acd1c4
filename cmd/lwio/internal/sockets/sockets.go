// Package sockets has the listening sockets of a process, which the next process can go on with. A
// connection attempt meanwhile waits in the backlog of its socket, and is not refused.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
)

// prefix begins the names of the sockets that a Set has made. Others come from the configuration of a
// supervisor.
const prefix = "lwio-"

// Set is a set of listening sockets. It keeps a descriptor of each, beside the one of its listener. Safe for
// concurrent use.
type Set struct {
	mu   sync.Mutex
	held []*Held
}

// Held is a kept descriptor.
type Held struct {
	// Name tells the sockets of a server from each other. It has no colon and no control character.
	Name string
	// File is the descriptor. It belongs to the Set.
	File *os.File

	made bool // by this process, and not returned by Made
	used bool // by a listener, or by the caller
}

// Own reports whether the server has made the socket, in this process or in an earlier one.
func (h *Held) Own() bool { return strings.HasPrefix(h.Name, prefix) }

// Name returns the name of the socket for a purpose and an address.
func Name(purpose, addr string) string {
	if addr != "" {
		purpose += "-" + addr
	}
	return prefix + strings.NewReplacer(":", "-", "%", "-").Replace(purpose)
}

// Inherit adds descriptors of an earlier process, or of a supervisor. The Set owns them.
func (s *Set) Inherit(name string, f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, &Held{Name: name, File: f})
}

// TCP returns a listener for an address: on an inherited socket, or on a new one. purpose is one word.
func (s *Set) TCP(ctx context.Context, purpose, addr string) (net.Listener, error) {
	if !keeps {
		return listenTCP(ctx, addr)
	}
	name := Name(purpose, addr)
	l, err := s.inherited(name, func(l net.Listener) bool { return sameAddress(ctx, l.Addr(), addr) })
	if l != nil || err != nil {
		return l, err
	}
	if l, err = listenTCP(ctx, addr); err != nil {
		return nil, err
	}
	if err := s.keep(name, l.(*net.TCPListener)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// listenTCP makes a socket. The providers and the server set the keep-alive of connections.
func listenTCP(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// Unix returns an inherited listener of a purpose, or one that bind makes.
func (s *Set) Unix(purpose string, bind func() (*net.UnixListener, error)) (*net.UnixListener, error) {
	if !keeps {
		return bind()
	}
	name := Name(purpose, "")
	l, err := s.inherited(name, func(net.Listener) bool { return false })
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		return u, listenAgain(u)
	}
	u, err := bind()
	if err != nil {
		return nil, err
	}
	if err := s.keep(name, u); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// inherited returns a listener on the first unused socket that has the name, or that suits; nil if there
// is none.
func (s *Set) inherited(name string, suits func(net.Listener) bool) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.used || h.Own() && h.Name != name {
			continue
		}
		l, err := net.FileListener(h.File)
		if err != nil {
			if h.Own() {
				return nil, fmt.Errorf("inherited socket %s: %w", h.Name, err)
			}
			continue // another kind of descriptor
		}
		if h.Name == name || suits(l) {
			h.used = true
			return l, nil
		}
		l.Close()
	}
	return nil, nil
}

// sameAddress reports whether a listener has the address that is asked for.
func sameAddress(ctx context.Context, have net.Addr, want string) bool {
	tcp, ok := have.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(want)
	if !ok || err != nil {
		return false
	}
	if n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil || n == 0 || n != tcp.Port {
		return false
	}
	if host == "" {
		return tcp.IP.IsUnspecified()
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	for _, ip := range ips {
		if ip.Equal(tcp.IP) || ip.IsUnspecified() && tcp.IP.IsUnspecified() {
			return true
		}
	}
	return false
}

// keep keeps a second descriptor of a listener.
func (s *Set) keep(name string, l interface{ File() (*os.File, error) }) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, &Held{Name: name, File: f, made: true, used: true})
	return nil
}

// Held returns the descriptors.
func (s *Set) Held() []*Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Held(nil), s.held...)
}

// Made returns the descriptors that this process has made since the last call.
func (s *Set) Made() (all []*Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.made {
			h.made = false
			all = append(all, h)
		}
	}
	return all
}

// Reuse makes all descriptors available again. The listeners of before are closed.
func (s *Set) Reuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		h.used = false
	}
}

// DropUnused closes the inherited descriptors that no listener uses, and returns their names.
func (s *Set) DropUnused() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.held[:0]
	for _, h := range s.held {
		if h.used {
			rest = append(rest, h)
			continue
		}
		h.File.Close()
		names = append(names, h.Name)
	}
	s.held = rest
	return names
}

// Close closes the descriptors, and not the listeners.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		h.File.Close()
	}
	s.held = nil
}
