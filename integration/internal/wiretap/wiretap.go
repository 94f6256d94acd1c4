// Package wiretap records the bytes of TCP connections to a server, so that tests can look for
// texts that must not be readable on the network.
package wiretap

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"unicode/utf16"
)

// Tap passes TCP connections on to a server and records all bytes. Safe for concurrent use.
type Tap struct {
	// Port is the TCP port of the tap on 127.0.0.1.
	Port string

	mu   sync.Mutex
	seen bytes.Buffer
}

// Start starts a tap in front of a server. The tap and its connections end with the test.
func Start(t *testing.T, server string) *Tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Tap{}
	if _, r.Port, err = net.SplitHostPort(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { l.Close(); end(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			context.AfterFunc(ctx, func() { client.Close(); to.Close() })
			for _, way := range [][2]net.Conn{{client, to}, {to, client}} {
				all.Go(func() {
					_, _ = io.Copy(io.MultiWriter(way[1], r), way[0])
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	return r
}

// Write records bytes of either direction.
func (r *Tap) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.Write(b)
}

// Has reports whether the recorded bytes hold a text, in UTF-8 or UTF-16.
func (r *Tap) Has(text string) bool {
	var wide []byte
	for _, u := range utf16.Encode([]rune(text)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.seen.Bytes(), []byte(text)) || bytes.Contains(r.seen.Bytes(), wide)
}
