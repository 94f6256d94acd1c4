package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// startNBD runs 'lwio nbd' with flags in this process until the end of the test, and returns the lines that it prints,
// of which there are n.
func startNBD(t *testing.T, n int, flags ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	log := new(lockedBuffer)
	done := make(chan int, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: w, stderr: log, env: func(string) string { return "" }}
		done <- a.run(ctx, append([]string{"nbd"}, flags...))
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != exitOK {
			t.Errorf("nbd: exit status %d\n%s", code, log)
		}
	})
	var lines []string
	for out := bufio.NewReader(r); len(lines) < n; {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("nbd printed %q: %v\n%s", lines, err, log)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// firstBytes reads the first n bytes of an export by NBD, over a connection that has sent nothing.
func firstBytes(t *testing.T, c net.Conn, export string, n int) []byte {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	msg := []byte{0, 0, 0, 3}
	msg = append(msg, "IHAVEOPT\x00\x00\x00\x01\x00\x00\x00"...)
	msg = append(msg, byte(len(export)))
	msg = append(msg, export...)
	msg = append(msg, 0x25, 0x60, 0x95, 0x13)
	msg = append(msg, make([]byte, 23)...)
	msg = append(msg, byte(n))
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 18+10+16+n) // greeting, export, reply
	if got, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("%x: %v", b[:got], err)
	}
	return b[44:]
}

func TestNBDServesFiles(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := map[string][]byte{"one": randomBytes(8192), "a disk": randomBytes(8192)}
	for name, b := range content {
		write(t, b, s.dir, name)
	}
	sock := filepath.Join(t.TempDir(), "s")
	for _, listen := range []string{"unix://" + sock, "tcp://127.0.0.1:0"} {
		t.Run(listen, func(t *testing.T) {
			lines := startNBD(t, 2, "--listen", listen, s.url+"/one", s.url+"/a disk")
			network, at := "unix", sock
			if listen[0] == 't' {
				network, at = "tcp", strings.TrimSuffix(strings.TrimPrefix(lines[0], "nbd://"), "/one")
				if lines[0] != "nbd://"+at+"/one" || lines[1] != "nbd://"+at+"/a%20disk" {
					t.Errorf("printed %q", lines)
				}
			} else {
				if lines[0] != "nbd+unix:///one?socket="+sock || lines[1] != "nbd+unix:///a%20disk?socket="+sock {
					t.Errorf("printed %q", lines)
				}
				info, err := os.Stat(sock)
				if err != nil {
					t.Fatal(err)
				}
				if runtime.GOOS == "linux" && info.Mode().Perm() != 0o600 {
					t.Errorf("the socket has mode %v", info.Mode())
				}
			}
			for name, want := range content {
				c, err := net.Dial(network, at)
				if err != nil {
					t.Fatal(err)
				}
				if got := firstBytes(t, c, name, 100); !bytes.Equal(got, want[:100]) {
					t.Errorf("%s has other data", name)
				}
				c.Close()
			}
		})
	}
	if _, err := os.Lstat(sock); err == nil {
		t.Error("the socket stays")
	}
}

// A name and the permissions of the socket can be chosen.
func TestNBDNameAndMode(t *testing.T) {
	s := startServer(t, t.TempDir(), "--read-only")
	write(t, randomBytes(100), s.dir, "disk")
	sock := filepath.Join(t.TempDir(), "s")
	lines := startNBD(t, 1, "--listen", "unix://"+sock, "--export-name", "x", "--socket-mode", "0666", "--read-only", s.url+"/disk")
	if lines[0] != "nbd+unix:///x?socket="+sock {
		t.Errorf("printed %q", lines)
	}
	info, err := os.Stat(sock)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && info.Mode().Perm() != 0o666 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
}

func TestNBDOverTLS(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := randomBytes(100)
	write(t, content, s.dir, "disk")
	dir := t.TempDir()
	cert, key, pool := selfSigned(t, dir)
	lines := startNBD(t, 1, "--listen", "tcp://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, s.url+"/disk")
	if !strings.HasPrefix(lines[0], "nbds://127.0.0.1:") {
		t.Errorf("printed %q", lines)
	}
	at := strings.TrimSuffix(strings.TrimPrefix(lines[0], "nbds://"), "/disk")
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write([]byte("\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x05\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 18+20)); err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	// The greeting and the client flags are not repeated.
	msg := append([]byte("IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x00\x25\x60\x95\x13"), make([]byte, 23)...)
	if _, err := tc.Write(append(msg, 100)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10+16+100)
	if _, err := io.ReadFull(tc, b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b[26:], content) {
		t.Error("other data")
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		if r := run(t, exitFailure, "nbd", "--listen", "tcp://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, s.url+"/disk"); !strings.Contains(r.err, "other users") {
			t.Errorf("a key that others can read: %s", r.err)
		}
	}
}

// selfSigned makes a certificate for localhost, and its key, in files of dir.
func selfSigned(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return write(t, text, dir, "cert"), writeSecret(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), dir, "key"), pool
}

func TestNBDRefusesWrongFlags(t *testing.T) {
	const url, local = "lwio://127.0.0.1:1/s/f", "tcp://127.0.0.1:0"
	for _, args := range [][]string{
		{"--listen", local},
		{url},
		{"--listen", "127.0.0.1:0", url},
		{"--listen", "rsock://127.0.0.1:0", url},
		{"--listen", "tcp://127.0.0.1", url},
		{"--listen", "unix://", url},
		{"--listen", "tcp://:0", url},
		{"--listen", "tcp://0.0.0.0:0", url},
		{"--listen", "tcp://0.0.0.0:0", "--tls-cert", "c", "--tls-key", "k", url},
		{"--listen", local, "--tls-cert", "c", url},
		{"--listen", local, "--tls-key", "k", url},
		{"--listen", local, "--tls-client-ca", "a", url},
		{"--listen", local, "--socket-mode", "0999", url},
		{"--listen", local, "--socket-mode", "1777", url},
		{"--listen", local, "--max-connections", "0", url},
		{"--listen", local, "--export-name", "a", "--export-name", "b", url},
		{"--listen", local, "/a/path"},
	} {
		r := run(t, exitUsage, append([]string{"nbd"}, args...)...)
		if !strings.HasPrefix(r.err, "lwio: ") {
			t.Errorf("%q: %s", args, r.err)
		}
	}
}

func TestNBDFailures(t *testing.T) {
	s := startServer(t, t.TempDir())
	readOnly := startServer(t, s.dir, "--read-only")
	write(t, randomBytes(100), s.dir, "disk")
	write(t, randomBytes(100), s.dir, "sub", "disk")
	dir := t.TempDir()
	empty := write(t, nil, dir, "empty")
	for _, c := range []struct {
		text string
		args []string
	}{
		{"no such file", []string{s.url + "/nothing"}},
		{"is a directory", []string{s.url + "/sub"}},
		{"--read-only needs no right to write", []string{readOnly.url + "/disk"}},
		{"PEM", []string{"--tls-cert", empty, "--tls-key", writeSecret(t, "", dir, "key"), s.url + "/disk"}},
	} {
		r := run(t, exitFailure, append([]string{"nbd", "--listen", "tcp://127.0.0.1:0"}, c.args...)...)
		if !strings.HasPrefix(r.err, "lwio: ") || !strings.Contains(r.err, c.text) {
			t.Errorf("%q: %s", c.args, r.err)
		}
	}
	r := run(t, exitUsage, "nbd", "--listen", "tcp://127.0.0.1:0", s.url+"/disk", s.url+"/sub/disk")
	if !strings.Contains(r.err, `two exports have the name "disk"`) {
		t.Errorf("two of a name: %s", r.err)
	}
	served := filepath.Join(dir, "served")
	startNBD(t, 1, "--listen", "unix://"+served, s.url+"/disk")
	r = run(t, exitFailure, "nbd", "--listen", "unix://"+served, s.url+"/disk")
	if !strings.Contains(r.err, "address already in use") {
		t.Errorf("a socket in use: %s", r.err)
	}
	r = run(t, exitFailure, "nbd", "--listen", "unix://"+empty, s.url+"/disk")
	if !strings.Contains(r.err, "address already in use") {
		t.Errorf("a file in the way: %s", r.err)
	}
}

// The socket of a process that was killed is not in the way of the next one.
func TestNBDReplacesSocketOfKilledProcess(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, randomBytes(100), s.dir, "disk")
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	startNBD(t, 1, "--listen", "unix://"+sock, s.url+"/disk")
}
