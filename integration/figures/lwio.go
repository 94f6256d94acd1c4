package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"lwio/integration/internal/measure"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// The transports of bench jobs; the others are names of providers.
const (
	viaLocal = "local"
	viaShm   = "shm"
	viaIWARP = "iwarp"
	viaSMB   = "smb"
)

// The completion modes.
const (
	polling   = "polling"
	adaptive  = "adaptive"
	interrupt = "interrupt"
)

// build builds the checkout's lwio.
func build(l *measure.Lab) error {
	if out, err := exec.Command("go", "build", "-C", "..", "-o", binary(l), "./cmd/lwio").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// file returns the name of the measured file. The page cache keeps a file in pieces as
// large as the writes that made it, up to 2 MiB. ext4 searches a whole piece for each write
// into it. The paged file is written page by page, to avoid that.
func file(l *measure.Lab, paged bool) string {
	if paged {
		return filepath.Join(l.Share, "paged")
	}
	return filepath.Join(l.Share, "file")
}

// makeFile makes the file without holes if it does not exist, and reads it into the page
// cache.
func makeFile(l *measure.Lab, paged bool) (string, error) {
	name, piece := file(l, paged), int64(mib)
	if paged {
		piece = 4 * kib
	}
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeFile(name, l.Size, piece)
	}
	return name, errors.Join(err, warm(name))
}

// writeFile makes a file in pieces of piece bytes.
func writeFile(name string, size, piece int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, piece)
	for i := range block {
		block[i] = byte(i * 7 >> 3)
	}
	for left := size; left > 0 && err == nil; left -= piece {
		_, err = f.Write(block[:min(left, piece)])
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// warm writes a file back to the disk and reads it into the page cache.
func warm(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, e := io.CopyBuffer(io.Discard, struct{ io.Reader }{f}, make([]byte, mib))
	return errors.Join(f.Sync(), e, f.Close())
}

// server starts 'lwio serve' on the lab's share if it does not run.
func server(l *measure.Lab, bin string, core int, noCRC bool) (*measure.Service, error) {
	return l.Serve(serverKey(bin, core, noCRC), core, "", bin, "serve", "--listen", "127.0.0.1:0",
		fmt.Sprintf("--no-crc=%t", noCRC), "data="+l.Share)
}

// serverKey names the server of a job.
func serverKey(bin string, core int, noCRC bool) string {
	return fmt.Sprintf("%s serve --no-crc=%t, core %d", bin, noCRC, core)
}

// bench is a job of 'lwio bench'.
type bench struct {
	Via    string // viaLocal, or the transport
	Mode   string // completion
	NoCRC  bool
	RW     string
	Size   int // bytes of a block
	Depth  int
	Conns  int    // connections; 0 is 1
	Engine string // "" for the default of bench
	Burst  bool   // submit all operations together and await them together
	Shared bool   // client and server on one core
	Paged  bool   // in the paged file
	Timed  bool   // time each operation, even of several in flight
	Bin    string // the lwio to run; "" for the checkout's

	Encrypted bool // the client requires encryption
}

// timed reports whether each operation is timed.
func (j bench) timed() bool { return j.Timed || j.Depth == 1 && j.Conns <= 1 }

// flags are the flags of lwio bench that describe the load.
func (j bench) flags(l *measure.Lab) []string {
	f := []string{
		"bench", "--json", "--rw", j.RW, "--bs", strconv.Itoa(j.Size), "--iodepth", strconv.Itoa(j.Depth),
		"--numjobs", strconv.Itoa(max(j.Conns, 1)), "--runtime", l.Runtime.String(),
	}
	if j.Via != viaLocal {
		f = append(f, "--provider", j.Via, fmt.Sprintf("--no-crc=%t", j.NoCRC))
		if j.Mode != "" {
			f = append(f, "--completion", j.Mode)
		}
		if j.Engine != "" {
			f = append(f, "--ioengine", j.Engine)
		}
	}
	return f
}

// Run does the job once.
func (j bench) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	name, err := makeFile(l, j.Paged)
	if err != nil {
		return nil, err
	}
	pid, bin := 0, cmp.Or(j.Bin, binary(l))
	if j.Via != viaLocal {
		core := l.Server
		if j.Shared {
			core = l.Client
		}
		s, err := server(l, bin, core, j.NoCRC)
		if err != nil {
			return nil, err
		}
		name, pid = s.At+"/"+filepath.Base(name), s.PID()
		if j.Encrypted {
			name += "?encryption=required"
		}
	}
	f := append(j.flags(l), "--ramp-time", (l.Runtime / 8).String(), "--server-pid", strconv.Itoa(pid))
	if !j.timed() {
		f = append(f, "--gtod-reduce")
	}
	if j.RW != "randread" {
		f = append(f, "--overwrite")
	}
	if j.Burst {
		f = append(f, "--iodepth-batch-complete", strconv.Itoa(j.Depth))
	}
	m := measure.StartMeter(pid)
	out, err := l.Command(ctx, m, nil, append(append([]string{bin}, f...), name)...)
	if err != nil {
		return nil, err
	}
	s, err := readBench(out)
	if err == nil {
		s[measure.Others] = m.Others.Seconds() / m.Took.Seconds()
	}
	return s, err
}

// readBench reads the JSON of lwio bench. The CPU of an unknown server is left out.
func readBench(out string) (measure.Sample, error) {
	var rows []struct {
		IOPS    float64  `json:"iops"`
		Bytes   float64  `json:"bytes_per_second"`
		Client  float64  `json:"client_cpu_us_per_op"`
		Server  *float64 `json:"server_cpu_us_per_op"`
		Errors  int      `json:"errors"`
		Latency *struct {
			P50 float64 `json:"p50"`
		} `json:"latency_us"`
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].Errors != 0 || rows[0].IOPS == 0 {
		return nil, fmt.Errorf("lwio bench: %w\n%s", err, out)
	}
	r := rows[0]
	s := measure.Sample{measure.Rate: r.IOPS, measure.Throughput: r.Bytes, measure.ClientCPU: r.Client * 1e3}
	if r.Server != nil {
		s[measure.ServerCPU] = *r.Server * 1e3
	}
	if r.Latency != nil {
		s[measure.P50] = r.Latency.P50 * 1e3
	}
	return s, nil
}
