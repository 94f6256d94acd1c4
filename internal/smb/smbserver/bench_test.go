package smbserver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/smb/smbauth"
)

// BenchmarkRead keeps reads in flight on one connection, signed and with each kind of cipher. It
// measures server and client together; the client neither checks nor decrypts responses.
func BenchmarkRead(b *testing.B) {
	for _, cipher := range []smbauth.Cipher{smbauth.NoCipher, smbauth.AES128GCM, smbauth.AES256GCM, smbauth.AES128CCM} {
		for _, v := range []struct{ size, inFlight int }{{4 << 10, 1}, {4 << 10, 32}, {64 << 10, 8}, {1 << 20, 8}} {
			name := "signed"
			if cipher != smbauth.NoCipher {
				name = cipher.String()
			}
			b.Run(fmt.Sprintf("%s/%dKiB/%dInFlight", name, v.size>>10, v.inFlight), func(b *testing.B) {
				benchmarkRead(b, cipher, v.size, v.inFlight)
			})
		}
	}
}

// benchmarkRead keeps reads of one size in flight.
func benchmarkRead(b *testing.B, cipher smbauth.Cipher, size, inFlight int) {
	_, addr, dir := testServer(b, nil)
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 64<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	c := dial(b, addr)
	answer := make([]byte, 4+80+size)
	if cipher != smbauth.NoCipher {
		c.offer = []smbauth.Cipher{cipher}
		answer = make([]byte, 4+52+80+size)
	}
	c.mustNegotiate(0x0311)
	c.mustSetup(testUser, testPassword)
	c.mustConnect("data")
	id := c.mustCreate(rw("f"))
	for range 8 {
		c.want(0, cmdEcho, []byte{4, 0, 0, 0})
	}
	charge := uint16(max(size>>16, 1))
	post := func(i int) {
		off := uint64(i*size) % (64 << 20)
		if _, err := c.nc.Write(c.frame(c.charge(c.message(cmdRead, readBody(id, off, uint32(size), 0)), charge))); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		b.Fatal(err)
	}
	sent := 0
	for ; sent < inFlight; sent++ {
		post(sent)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(c.nc, answer); err != nil {
			b.Fatal(err)
		}
		post(sent)
		sent++
	}
}
