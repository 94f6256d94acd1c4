package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"lwio/integration/internal/measure"
	"lwio/internal/smb/smbwire"
)

// The figures of a flood are of the clients that were served.
func TestFloodSampleIsOfServedClients(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		times                  []time.Duration
		took                   time.Duration
		served, rate, p50, p99 float64
	}{
		{[]time.Duration{7}, time.Second, 1, 1, 7, 7},
		{[]time.Duration{9, 1, 5}, 2 * time.Second, 3, 1.5, 5, 9},
		{hundred, 10 * time.Second, 100, 10, 51, 100},
	} {
		s := floodSample(c.times, c.took)
		if s[measure.Served] != c.served || s[measure.Rate] != c.rate || s[measure.P50] != c.p50 || s[measure.P99] != c.p99 {
			t.Errorf("%v in %v: %v", c.times, c.took, s)
		}
	}
}

// An unauthenticated peer has a wrong password, of the clients' user or of another one.
func TestPeersHaveAWrongPassword(t *testing.T) {
	const at = "lwio://alice:secret@127.0.0.1:4450/data"
	for guess, want := range map[bool]string{
		true: "lwio://alice:wrong@127.0.0.1:4450/data", false: "lwio://other:wrong@127.0.0.1:4450/data",
	} {
		if got, err := wrongPassword(at, guess); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// A server answers the first message of an SMB client, and the request for an iWARP connection.
func TestPeersBeginLogons(t *testing.T) {
	l := testLab(t)
	if err := build(l); err != nil {
		t.Fatal(err)
	}
	name, err := makeFile(l, false)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server(l, binary(l), l.Server, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gather(t.Context(), srv.At, filepath.Base(name), false)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		addr   string
		sent   []byte
		answer string
	}{
		"SMB":   {s.smb, smbNegotiate(), "\xfeSMB"},
		"iWARP": {s.iwarp, mpaRequest, "MPA ID Rep Frame"},
	} {
		nc, err := dialFrom(t.Context(), net.IPv4(127, 9, 9, 9), c.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write(c.sent); err != nil {
			t.Fatal(err)
		}
		at := 0
		if what == "SMB" {
			at = smbwire.FrameHeaderSize
		}
		got := make([]byte, at+len(c.answer))
		if _, err := io.ReadFull(nc, got); err != nil || string(got[at:]) != c.answer {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// Peers hold at most a number of connections, and the oldest makes room.
func TestPeersHoldBoundedConnections(t *testing.T) {
	s := &floodPeers{held: make([]net.Conn, 2)}
	var peers []net.Conn
	for range 3 {
		a, b := net.Pipe()
		s.hold(a)
		peers = append(peers, b)
	}
	if _, err := peers[0].Read(make([]byte, 1)); err == nil {
		t.Error("the oldest connection is open")
	}
	_, s.cancel = context.WithCancel(t.Context())
	s.stop()
	for i, p := range peers {
		if _, err := p.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d is open after stop", i)
		}
	}
}
