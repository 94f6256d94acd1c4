package smbserver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRead keeps reads in flight on one signed connection. It measures server and
// client together; the client checks no signatures.
func BenchmarkRead(b *testing.B) {
	for _, v := range []struct{ size, inFlight int }{{4 << 10, 1}, {4 << 10, 32}, {64 << 10, 8}, {1 << 20, 4}} {
		b.Run(fmt.Sprintf("%dKiB/%dInFlight", v.size>>10, v.inFlight), func(b *testing.B) {
			_, addr, dir := testServer(b, nil)
			if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 64<<20), 0o600); err != nil {
				b.Fatal(err)
			}
			c := mount(b, addr, "data")
			id := c.mustCreate(rw("f"))
			for range 8 {
				c.want(0, cmdEcho, []byte{4, 0, 0, 0})
			}
			charge := uint16(max(v.size>>16, 1))
			post := func(i int) {
				off := uint64(i*v.size) % (64 << 20)
				if _, err := c.nc.Write(c.frame(c.charge(c.message(cmdRead, readBody(id, off, uint32(v.size), 0)), charge))); err != nil {
					b.Fatal(err)
				}
			}
			answer := make([]byte, 4+80+v.size)
			if err := c.nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				b.Fatal(err)
			}
			sent := 0
			for ; sent < v.inFlight; sent++ {
				post(sent)
			}
			b.SetBytes(int64(v.size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.ReadFull(c.nc, answer); err != nil {
					b.Fatal(err)
				}
				post(sent)
				sent++
			}
		})
	}
}
