package stream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/host"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock/internal/verbs"
)

// The benchmarks run the peer in a process of its own. They print the CPU time per operation
// of this process, and that of the peer.

// benchPeer is the name of the variable that makes this program a peer.
const benchPeer = "SESSION_BENCH_PEER"

// transportNames are the compared transports.
var transportNames = []string{"unix", "shm", "shm-spin", "tcp", "iwarp", "iwarp-spin"}

// benchConfig returns the Config of a transport.
func benchConfig(name string) Config {
	switch name {
	case "shm-spin", "iwarp-spin":
		return Config{BusyPoll: time.Hour}
	}
	return Config{}
}

// benchProvider returns the provider of a transport, nil for a socket.
func benchProvider(name string) rdma.Provider {
	switch name {
	case "shm", "shm-spin":
		return shm.New(nil)
	case "iwarp", "iwarp-spin":
		return iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff})
	}
	return nil
}

// servePeer accepts one connection and, as its first byte selects, echoes messages of 64
// bytes, or reads the stream.
func servePeer(name string) error {
	conn, err := acceptPeer(name)
	if err != nil {
		return err
	}
	defer conn.Close()
	what := make([]byte, 1)
	if _, err := io.ReadFull(conn, what); err != nil {
		return err
	}
	if what[0] == 'e' {
		buf := make([]byte, 64)
		for {
			if _, err := io.ReadFull(conn, buf); err != nil {
				return nil
			}
			if _, err := conn.Write(buf); err != nil {
				return nil
			}
		}
	}
	return sink(conn)
}

// sink reads the stream in pieces of 1 MiB and reports its CPU time.
func sink(conn io.ReadWriteCloser) error {
	buf := make([]byte, 1<<20)
	before, total := host.CPUTime(), 0
	for {
		n, err := conn.Read(buf)
		if total += n; err != nil {
			break
		}
	}
	_, err := fmt.Fprintf(conn, "%d %d\n", total, host.CPUTime()-before)
	return err
}

// acceptPeer listens, prints its address, and accepts one connection.
func acceptPeer(name string) (io.ReadWriteCloser, error) {
	p := benchProvider(name)
	if p == nil {
		network, at := "tcp", "127.0.0.1:0"
		if name == "unix" {
			network, at = "unix", filepath.Join(os.TempDir(), fmt.Sprintf("session-bench-%d", os.Getpid()))
		}
		l, err := net.Listen(network, at)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		fmt.Println(l.Addr())
		return l.Accept()
	}
	ctx := context.Background()
	f, _ := fabricOf(p)
	v, err := verbs.StartupEx(ctx, p, f.listen.AddrPort.Addr(), nil)
	if err != nil {
		return nil, err
	}
	at := f.listen
	if p.Name() == shm.Name {
		at = rdma.Addr{Fabric: shm.Name, Name: fmt.Sprintf("session-bench-%d", os.Getpid())}
	}
	l, err := v.Listen(ctx, at, 0)
	if err != nil {
		return nil, err
	}
	addr, err := l.Addr()
	if err != nil {
		return nil, err
	}
	if p.Name() == shm.Name {
		fmt.Println(addr.Name)
	} else {
		fmt.Println(addr.AddrPort)
	}
	in, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, in.Socket(), benchConfig(name))
	if err != nil {
		return nil, err
	}
	if _, err := in.Accept(ctx, nil); err != nil {
		return nil, err
	}
	return s, s.Start(ctx, false)
}

// fabricOf returns the fabric of a provider.
func fabricOf(p rdma.Provider) (fabric, bool) {
	for _, f := range fabrics() {
		if f.name == p.Name() {
			return f, true
		}
	}
	return fabric{}, false
}

// dialPeer starts a peer process and connects to it.
func dialPeer(b *testing.B, name string) io.ReadWriteCloser {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), benchPeer+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	line = line[:len(line)-1]
	p := benchProvider(name)
	if p == nil {
		conn, err := net.Dial(name, line)
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	f, _ := fabricOf(p)
	v := service(b, p, f.listen.AddrPort.Addr(), nil)
	sock, err := v.Socket(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(b.Context(), sock, benchConfig(name))
	if err != nil {
		b.Fatal(err)
	}
	at := rdma.Addr{Fabric: shm.Name, Name: line}
	if p.Name() != shm.Name {
		a, err := net.ResolveTCPAddr("tcp", line)
		if err != nil {
			b.Fatal(err)
		}
		at = rdma.IPAddr(p.Name(), a.AddrPort())
	}
	if _, err := sock.Connect(b.Context(), at, nil); err != nil {
		b.Fatal(err)
	}
	if err := s.Start(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkPingPong sends 64 bytes in both directions.
func BenchmarkPingPong(b *testing.B) {
	for _, name := range transportNames {
		b.Run(name, func(b *testing.B) {
			conn := dialPeer(b, name)
			defer conn.Close()
			if _, err := conn.Write([]byte{'e'}); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 64)
			b.ReportAllocs()
			before := host.CPUTime()
			for b.Loop() {
				if _, err := conn.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(host.CPUTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkStream writes 1 MiB at a time.
func BenchmarkStream(b *testing.B) {
	for _, name := range transportNames {
		b.Run(name, func(b *testing.B) {
			conn := dialPeer(b, name)
			defer conn.Close()
			if _, err := conn.Write([]byte{'s'}); err != nil {
				b.Fatal(err)
			}
			buf := pattern(1 << 20)
			b.SetBytes(1 << 20)
			before := host.CPUTime()
			for b.Loop() {
				if _, err := conn.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(host.CPUTime()-before)/float64(b.N), "cpu-ns/op")
			if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				b.Fatal(err)
			}
			var total, cpu int64
			if _, err := fmt.Fscan(conn, &total, &cpu); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpu)/float64(total)*(1<<20), "peer-cpu-ns/op")
		})
	}
}
