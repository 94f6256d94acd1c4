package nbd

import (
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A connection of any bytes ends after them, and the server goes on.
func FuzzConnection(f *testing.F) {
	const (
		negotiated = "00000003" + optStructured + optMagic + "00000007 0000000a 00000004 6469736b 0000"
		read       = "25609513 0000 0000 0000000000000001 0000000000000100 00000010"
		write      = "25609513 0001 0001 0000000000000002 0000000000000010 00000004 01020304"
		flush      = "25609513 0000 0003 0000000000000003 0000000000000000 00000000"
		zeroes     = "25609513 0000 0006 0000000000000004 0000000000000031 00000fff"
		cache      = "25609513 0000 0005 0000000000000005 0000000000000000 00001000"
		end        = "25609513 0000 0002 0000000000000000 0000000000000000 00000000"
	)
	for _, seed := range []string{
		negotiated + read + write + flush + zeroes + cache + end,
		"00000001" + optMagic + "00000001 00000004 6469736b" + write + read,
		"00000003" + optMagic + "00000003 00000000" + optMagic + "00000002 00000000",
		"00000003" + optStructured + optMagic + "0000000a 0000001f 00000004 6469736b 00000001 0000000f " + hexOf("base:allocation"),
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(seed, " ", ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	r := start(f, rigConfig{size: 64 << 10})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := net.Dial("unix", r.sock)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = c.Write(b) // the server may end the connection before it has read all
			_ = c.(*net.UnixConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("the connection stays: %v", err)
		}
	})
}
