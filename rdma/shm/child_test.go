//go:build linux

package shm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// child is the other process of a test, which runs this binary too.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// spawn starts a child with a role. The child connects to addr, and may write to at.
func spawn(tb testing.TB, role string, addr rdma.Addr, at rdma.RemoteAddr) *child {
	tb.Helper()
	cmd := exec.Command(os.Args[0], addr.Name, fmt.Sprint(at.Addr), fmt.Sprint(uint32(at.Token)))
	cmd.Env = append(os.Environ(), childVariable+"="+role)
	cmd.Stderr = os.Stderr
	in := must[io.WriteCloser](tb)(cmd.StdinPipe())
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{cmd, in}
}

// The child's memory has a polled word, and data after it.
const (
	childMemory = 1 << 16
	childData   = 4096
)

// playChild is the main function of a child.
func playChild(role string) int {
	var at rdma.RemoteAddr
	var token uint32
	_, err := fmt.Sscan(os.Args[2]+" "+os.Args[3], &at.Addr, &token)
	at.Token = rdma.RemoteToken(token)
	if way, ok := strings.CutPrefix(role, "floor-"); ok {
		err = childFloor(way)
	} else if err == nil && role == "socket" {
		err = childSocket(os.Args[1])
	} else if err == nil {
		err = runChild(role, os.Args[1], at)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "child %s: %v\n", role, err)
		return 1
	}
	return 0
}

// childConfig is the configuration that both processes of a test use.
func childConfig() *Config {
	return patient(&Config{BlockingWait: os.Getenv("SHM_TEST_SLEEP") == "futex"})
}

// runChild connects, sends the address of its memory, and plays its role.
func runChild(role, name string, peer rdma.RemoteAddr) error {
	ctx := context.Background()
	a, err := New(childConfig()).OpenAdapter(ctx, netip.Addr{})
	if err != nil {
		return err
	}
	defer a.Close()
	// The queue pair has room again before the results are there: a sender gathers up to MaxResults of
	// them. A role that posts while there is room has these results too, and those of both queues.
	const receives, depth = 16, 32
	cq, err := a.CreateCompletionQueue(2 * (softrdma.MaxResults + receives + depth))
	if err != nil {
		return err
	}
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: receives, InitiatorDepth: depth,
		MaxReceiveSGE: 1, MaxInitiatorSGE: 1, InlineSize: 64,
	})
	if err != nil {
		return err
	}
	mem, err := a.Alloc(ctx, childMemory)
	if err != nil {
		return err
	}
	region, err := a.RegisterMemory(ctx, mem.Bytes(), readable)
	if err != nil {
		return err
	}
	for range receives {
		if _, err := qp.PostReceive([]rdma.ReceiveRequest{{SGL: []rdma.SGE{{Region: region, Offset: childMemory - 64, Length: 64}}}}); err != nil {
			return err
		}
	}
	conn, err := rdma.Dial(ctx, a, qp, rdma.Addr{Fabric: Name, Name: name}, rdma.DialConfig{Limits: someReads})
	if err != nil {
		return err
	}
	at := region.RemoteAddr()
	msg := binary.LittleEndian.AppendUint64(nil, at.Addr)
	msg = binary.LittleEndian.AppendUint32(msg, uint32(at.Token))
	if _, err := qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: msg}}); err != nil {
		return err
	}
	switch role {
	case "frozen":
		return childFrozen(mem.Bytes(), qp)
	case "word":
		return childWord(mem.Bytes(), cq, qp, peer)
	case "echo":
		return childEcho(ctx, cq, qp, region)
	case "chaos":
		return childChaos(ctx, a, cq, qp, region, peer)
	}
	<-conn.Done()
	return nil
}

// childFrozen waits until its input reports that its memory was written while it was
// stopped, and reports the result.
func childFrozen(mem []byte, qp rdma.QueuePair) error {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	word := wordAt(mem, 0)
	if !bytes.Equal(mem[childData:childData+4096], fill(make([]byte, 4096))) {
		return errors.New("the data did not arrive")
	}
	answer := binary.LittleEndian.AppendUint64(nil, word.Load())
	_, err := qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: answer}})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// childEcho sends every message back until the connection ends.
func childEcho(ctx context.Context, cq rdma.CompletionQueue, qp rdma.QueuePair, region rdma.MemoryRegion) error {
	sgl := []rdma.SGE{{Region: region, Offset: childMemory - 64, Length: 64}}
	var res [16]rdma.Result
	spins := 0
	for {
		n, err := cq.Poll(res[:])
		if err != nil {
			return err
		}
		for _, r := range res[:n] {
			if r.Status != rdma.StatusSuccess {
				return nil
			}
			if r.Op != rdma.OpReceive {
				continue
			}
			if _, err := qp.PostReceive([]rdma.ReceiveRequest{{SGL: sgl}}); err != nil {
				return err
			}
			if _, err := qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: sgl}}); err != nil {
				return nil // the connection is over
			}
		}
		if spins++; n > 0 {
			spins = 0
		} else if spins > 20_000 || os.Getenv("SHM_TEST_SLEEP") != "" {
			if err := cq.Wait(ctx, rdma.NotifyAny); err != nil {
				return err
			}
			spins = 0
		}
	}
}

// childWord answers each word that is written into its memory with the same word, until
// the connection ends.
func childWord(mem []byte, cq rdma.CompletionQueue, qp rdma.QueuePair, peer rdma.RemoteAddr) error {
	w := newWordPlayer(mem[childMemory-64:], cq, qp, peer)
	for {
		w.last++
		if !w.watch(wordAt(mem, 0)) || w.say() != nil {
			return nil
		}
	}
}

// childSocket connects to a plain socket and echoes its bytes, sleeping.
func childSocket(name string) error {
	nc, err := openSocket(context.Background(), "", name)
	if err != nil {
		return err
	}
	defer nc.Close()
	return echoSocket(nc)
}

// echoSocket echoes bytes until the end of the stream.
func echoSocket(nc *net.UnixConn) error {
	buf := make([]byte, 64)
	for {
		if _, err := nc.Read(buf); err != nil {
			return nil // the other side is done
		}
		if _, err := nc.Write(buf); err != nil {
			return err
		}
	}
}

// parentReceives is the number of receives that the parent posts before it connects.
const parentReceives = 64

// parent connects this process with a child, and receives the address of the child's
// memory.
func parent(tb testing.TB, role string) (*side, *child, rdma.RemoteAddr) {
	tb.Helper()
	s := newSide(tb, childConfig(), 1<<16)
	for range parentReceives {
		if _, err := s.qp.PostReceive([]rdma.ReceiveRequest{{SGL: s.sge(0, 64)}}); err != nil {
			tb.Fatal(err)
		}
	}
	l, addr := s.listen(tb)
	c := spawn(tb, role, addr, s.at(64))
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	if err := s.serve(ctx, l); err != nil {
		tb.Fatal(err)
	}
	l.Close()
	if res := next(tb, s.rcq); res.Status != rdma.StatusSuccess || res.Bytes != 12 {
		tb.Fatalf("address of the child's memory: %+v", res)
	}
	return s, c, rdma.RemoteAddr{
		Addr:  binary.LittleEndian.Uint64(s.mem),
		Token: rdma.RemoteToken(binary.LittleEndian.Uint32(s.mem[8:])),
	}
}

// The parent writes into the memory of a stopped process, and reads it back: no code of
// that process runs. Source: design decision 11
func TestOneSidedAccessRunsNoTargetCode(t *testing.T) {
	s, c, at := parent(t, "frozen")
	s.write(t, rdma.Request{Flags: rdma.FlagInline, Inline: []byte{0}, Remote: at})
	eventually(t, "the region is shared", func() bool { return s.inside().mappings.knows(uint32(at.Token)) })
	eventually(t, "the ring is empty", s.drained)
	stop(t, c.cmd.Process.Pid)
	copy(s.mem, fill(make([]byte, 4096)))
	copy(s.mem[8192:], "\x2a\x00\x00\x00\x00\x00\x00\x00")
	s.write(t, rdma.Request{SGL: s.sge(0, 4096), Remote: rdma.RemoteAddr{Addr: at.Addr + childData, Token: at.Token}})
	if res := s.write(t, rdma.Request{SGL: s.sge(8192, 8), Remote: at}); res.Status != rdma.StatusSuccess {
		t.Fatal(res.Status)
	}
	if res := s.read(t, s.sge(16<<10, 4096), rdma.RemoteAddr{Addr: at.Addr + childData, Token: at.Token}); res.Status != rdma.StatusSuccess {
		t.Fatal(res.Status)
	}
	if !bytes.Equal(s.mem[16<<10:20<<10], s.mem[:4096]) {
		t.Error("the read bytes are not the written ones")
	}
	if !s.drained() {
		t.Error("a request waits in the ring")
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write([]byte("look\n")); err != nil {
		t.Fatal(err)
	}
	if res := next(t, s.rcq); res.Status != rdma.StatusSuccess || res.Bytes != 8 || s.mem[0] != 42 {
		t.Errorf("the child answers %+v, %d", res, s.mem[0])
	}
}

// stop stops a process and waits until it has stopped.
func stop(tb testing.TB, pid int) {
	tb.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	eventually(tb, "the child stops", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			tb.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "T")
	})
}

// Messages go to another process and back, with polling and with sleeping.
func TestEchoAcrossProcesses(t *testing.T) {
	for _, sleep := range []string{"", "poller", "futex"} {
		t.Setenv("SHM_TEST_SLEEP", sleep)
		s, _, _ := parent(t, "echo")
		for i := range 500 {
			s.mem[100] = byte(i)
			s.post(t, rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess * rdma.Flags(i%2), SGL: s.sge(100, 64)})
			if _, err := s.qp.PostReceive([]rdma.ReceiveRequest{{SGL: s.sge(0, 64)}}); err != nil {
				t.Fatal(err)
			}
			if res := next(t, s.rcq); res.Status != rdma.StatusSuccess || s.mem[0] != byte(i) {
				t.Fatalf("round %d: %+v, %d", i, res, s.mem[0])
			}
			if i%2 == 0 {
				next(t, s.icq)
			}
		}
	}
}
