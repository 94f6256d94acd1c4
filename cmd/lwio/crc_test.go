package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"lwio"
)

// A connection has no CRCs only if both sides have --no-crc. A server answers a peer that
// requests no CRC with its own choice.
//
// Source: [RFC 5044 §7.1]
func TestNoCRCNeedsBothSides(t *testing.T) {
	for _, c := range []struct {
		flag string
		want byte
	}{{"--no-crc=false", 0x40}, {"--no-crc", 0}} {
		s := startServer(t, t.TempDir(), c.flag)
		run(t, exitOK, "ls", c.flag, s.url+"?provider=iwarp")
		if flags := mpaReply(t, iwarpAddress(t, s.url)); flags&0x40 != c.want {
			t.Errorf("%s: the flags of the reply are %#x", c.flag, flags)
		}
	}
}

// iwarpAddress is the address at which a server listens for iWARP.
func iwarpAddress(t *testing.T, url string) string {
	t.Helper()
	client, err := lwio.Dial(context.Background(), url+"?provider=iwarp", &lwio.Config{RequireRDMA: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Transport().Addr
}

// mpaReply is the byte of flags that answers an MPA request without any.
func mpaReply(t *testing.T, addr string) byte {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(append([]byte("MPA ID Req Frame"), 0, 1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 20)
	if _, err := io.ReadFull(conn, reply); err != nil || !bytes.HasPrefix(reply, []byte("MPA ID Rep Frame")) {
		t.Fatalf("reply %q: %v", reply, err)
	}
	return reply[16]
}
