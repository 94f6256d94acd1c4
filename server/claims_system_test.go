package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lwio"
	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
)

// A client and a server, linked by an RDMA channel: first they discover, over SMB
// alone, and then the I/O is over the channel alone.
//
// Source: [LWIO claim 1]
func TestClaim01(t *testing.T) { onEach(t, testClaim01) }

func testClaim01(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	data := content(100_000)
	if seen := p.watch.seen(); len(seen) != 0 {
		t.Fatalf("%d posts before the first client", len(seen))
	}
	c := p.dial(lwio.Config{})
	discovered, _ := p.tap.bytes()
	if !bytes.Contains(discovered, inUTF16("lwio")) || !bytes.Contains(discovered, []byte("LWIO\x01\x10\x00\x00\xfe\x00")) {
		t.Error("nothing was discovered over the pipe")
	}
	f := p.file(c, "a", data)
	before, _ := p.tap.bytes()
	p.wantRead(f, 0, data)
	if n, err := f.WriteAt(data[:30_000], 100_000); n != 30_000 || err != nil {
		t.Fatal(n, err)
	}
	p.wantFile("a", append(data, data[:30_000]...))
	if to, from := p.tap.bytes(); len(to) != len(before) || bytes.Contains(from, data[:100]) {
		t.Error("the I/O went over SMB")
	}
	if r := c.Stats(); r.RDMA.ReadBytes != 100_000 || r.RDMA.WrittenBytes != 30_000 || r.Connects != 1 {
		t.Errorf("%+v", r)
	}
}

// Reads are RDMA Writes into the client's memory, writes are sends, and the server
// has no memory that a client could write or read.
//
// Source: [LWIO claim 2] [OP-100]
func TestClaim02(t *testing.T) { onEach(t, testClaim02) }

func testClaim02(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	data := content(50_000)
	c := p.dial(lwio.Config{Completion: lwio.Interrupt})
	f := p.file(c, "a", data)
	p.wantRead(f, 0, data)
	if _, err := f.WriteAt(data[:1000], 7); err != nil {
		t.Fatal(err)
	}
	read, write := p.watch.requests(wire.OpRead), p.watch.requests(wire.OpWrite)
	if len(read) != 1 || len(write) != 1 {
		t.Fatalf("%d reads, %d writes", len(read), len(write))
	}
	n := 0
	for _, w := range read[0].writes {
		if w.remote.Addr != read[0].h.DataVa+uint64(n) || uint32(w.remote.Token) != read[0].h.DataMh {
			t.Errorf("%d bytes went to %+v", w.size, w.remote)
		}
		n += w.size
	}
	if n != len(data) || len(read[0].body) != 0 {
		t.Errorf("%d bytes were written into the client's memory", n)
	}
	if len(write[0].writes) != 0 || !bytes.Equal(write[0].body, data[:1000]) {
		t.Error("the data of the write did not come with its message")
	}
	for _, s := range p.watch.seen() {
		if s.op == rdma.OpRead || s.by == "client" && s.op != rdma.OpSend && s.op != rdma.OpBind && s.op != rdma.OpInvalidate {
			t.Errorf("the %s posted %v", s.by, s.op)
		}
	}
	if st := p.hook.Stats(); st.Exposed != 0 {
		t.Errorf("the server exposes %d regions", st.Exposed)
	}
}

// SMB names the file and authenticates the user. The end of the SMB session ends the RDMA
// connection.
//
// Source: [LWIO claim 3]
func TestClaim03(t *testing.T) { onEach(t, testClaim03) }

func testClaim03(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	c := p.dial(lwio.Config{})
	const name = "a-name-of-its-own"
	f := p.file(c, name, content(5000))
	p.wantRead(f, 0, content(5000))
	to, _ := p.tap.bytes()
	if !bytes.Contains(to, inUTF16(name)) {
		t.Error("SMB does not name the file")
	}
	for _, s := range p.watch.seen() {
		if s.op == rdma.OpSend && (bytes.Contains(s.data, inUTF16(name)) || bytes.Contains(s.data, []byte(name))) {
			t.Errorf("the %s named the file over RDMA", s.by)
		}
	}
	p.server.smb.Close()
	eventually(t, "the RDMA connection ends with the SMB session", func() bool { return p.server.Stats().Connections == 0 })
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil {
		t.Error("a read without either")
	}
}

// The protocol that names files is SMB: every message in both directions is a message of SMB 2 or 3,
// and the client finds LWIO by messages of SMB.
//
// Source: [LWIO claim 4] [OP-5c]
func TestClaim04(t *testing.T) { onEach(t, testClaim04) }

func testClaim04(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	p.wantRead(p.file(p.dial(lwio.Config{}), "a", content(100)), 0, content(100))
	to, from := p.tap.bytes()
	commands := make(map[byte]int)
	for _, stream := range [][]byte{to, from} {
		for _, m := range frames(t, stream) {
			if !bytes.HasPrefix(m, []byte("\xfeSMB\x40\x00")) {
				t.Fatalf("a message that is none of SMB 2 or 3: %.8x", m)
			}
			commands[m[12]]++
		}
	}
	for _, command := range []byte{0, 1, 3, 5, 11} { // negotiate, session setup, tree connect, create, ioctl
		if commands[command] < 2 {
			t.Errorf("command %d was not used: %v", command, commands)
		}
	}
	for what, code := range map[string]string{
		"FSCTL_SRV_REQUEST_RESUME_KEY": "\x78\x00\x14\x00", "FSCTL_PIPE_TRANSCEIVE": "\x17\xc0\x11\x00",
	} {
		if !bytes.Contains(to, []byte(code)) {
			t.Errorf("no %s", what)
		}
	}
}

// A client may begin with CIFS: one that offers SMB 2 in it continues with SMB 2, and one that
// offers nothing else is refused.
//
// Source: [LWIO claim 5] [OP-5c]
func TestClaim05(t *testing.T) { onEach(t, testClaim05) }

func testClaim05(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	cifs := func(dialects ...string) []byte {
		list := "\x02" + strings.Join(dialects, "\x00\x02") + "\x00"
		return []byte("\xffSMB\x72" + string(make([]byte, 28)) + string([]byte{byte(len(list)), 0}) + list)
	}
	nc := dialAndSitThere(t, p.addr)
	answer := ask(t, nc, cifs("NT LM 0.12"))
	if !bytes.HasPrefix(answer, []byte("\xffSMB\x72")) || !bytes.Equal(answer[32:35], []byte{1, 0xFF, 0xFF}) {
		t.Errorf("the answer to CIFS alone is %x", answer)
	}
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("CIFS alone may go on")
	}
	nc = dialAndSitThere(t, p.addr)
	answer = ask(t, nc, cifs("NT LM 0.12", "SMB 2.???"))
	if !bytes.HasPrefix(answer, []byte("\xfeSMB")) || string(answer[68:70]) != "\xff\x02" {
		t.Fatalf("the answer to CIFS and SMB 2 is %x", answer)
	}
	smb2 := make([]byte, 64+36+2)
	copy(smb2, "\xfeSMB\x40")
	smb2[14], smb2[24] = 1, 1 // a credit wanted, the second message
	copy(smb2[64:], "\x24\x00\x01\x00\x01\x00")
	copy(smb2[64+36:], "\x02\x03")
	answer = ask(t, nc, smb2)
	if !bytes.HasPrefix(answer, []byte("\xfeSMB")) || string(answer[8:12]) != "\x00\x00\x00\x00" || string(answer[68:70]) != "\x02\x03" {
		t.Fatalf("the answer to SMB 2 behind CIFS is %x", answer)
	}
	p.wantRead(p.file(p.dial(lwio.Config{}), "a", content(3000)), 0, content(3000))
}

// ask sends a message of SMB's and returns the answer.
func ask(t *testing.T, nc net.Conn, m []byte) []byte {
	t.Helper()
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...)); err != nil {
		t.Fatal(err)
	}
	var n [4]byte
	if _, err := io.ReadFull(nc, n[:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := io.ReadFull(nc, answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// Claim 1 again, for programs that are stored: the command is built into a file, and
// two processes are made of that.
//
// Source: [LWIO claim 6] [OP-43]
func TestClaim06(t *testing.T) {
	program := build(t)
	onEach(t, func(t *testing.T, on string) { testClaim06(t, on, program) })
}

func testClaim06(t *testing.T, on, program string) {
	dir := t.TempDir()
	data := content(1 << 20)
	if err := os.WriteFile(filepath.Join(dir, "a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	url := startProgram(t, program, "serve", "--listen", "127.0.0.1:0", "--provider", on, "share="+dir)
	got := runProgram(t, program, "cat", url+"/a?provider="+on)
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes that differ", len(got))
	}
	wantBench(t, on, runProgram(t, program, "bench", url+"/a?provider="+on, "--runtime", "100ms", "--json"))
}

// wantBench demands that the one run of bench used a provider and had no error.
func wantBench(t *testing.T, on string, out []byte) {
	t.Helper()
	type row struct {
		Provider string
		IOPS     float64
		Errors   int
	}
	var rows []row
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(rows) != 1 || rows[0].Provider != on || rows[0].IOPS <= 0 || rows[0].Errors != 0 {
		t.Errorf("bench says %s", out)
	}
}

// wantDoctor checks the report of the doctor: of the RDMA providers of this host the one common
// provider works and is in use, and no other works; SMB works and is not in use.
func wantDoctor(t *testing.T, on string, out []byte) {
	t.Helper()
	var found []struct {
		Transport    string
		Usable, Used bool
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := make(map[string]bool)
	for _, f := range found {
		seen[f.Transport] = true
		common := f.Transport == on
		if f.Used != common || f.Usable != (common || f.Transport == lwio.TransportSMB) {
			t.Errorf("doctor reports %+v, and %s is common", f, on)
		}
	}
	if len(found) != len(lwio.DefaultProviders())+1 || !seen[on] || !seen[lwio.TransportSMB] {
		t.Errorf("doctor reports %s", out)
	}
}

// build makes the command's program.
func build(t *testing.T) string {
	t.Helper()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		skip.Test(t, "no go command here to build the program with")
	}
	program := filepath.Join(t.TempDir(), "lwio")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command(goCommand, "build", "-o", program, "lwio/cmd/lwio").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return program
}

// startProgram runs a server until the test ends, and returns its first line of output.
func startProgram(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil && runtime.GOOS != "windows" {
			t.Errorf("%v: %v", args, err)
		}
	})
	line := make([]byte, 1024)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("%v printed nothing: %v", args, err)
	}
	return strings.TrimSpace(string(line[:n]))
}

// runProgram runs the program and returns its output.
func runProgram(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	return out.Bytes()
}
