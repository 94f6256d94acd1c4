// Command figures compares liblwio with a Batch of package lwio: 4 KiB reads at random offsets, 32 in flight, of a
// file that the server has in memory.
//
//	go run ./figures [-rounds 5] [-seconds 2]
//
// Client and server are two processes, each on a processor of its own. The two clients take turns. Printed are
// the medians and their ratio.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lwio"
)

const (
	fileSize = 64 << 20
	depth    = 32
	part     = 4096
)

func main() {
	rounds := flag.Int("rounds", 5, "number of runs of each client")
	seconds := flag.Float64("seconds", 2, "seconds of each run")
	client := flag.String("client", "", "run the client in Go on a `URL` (used by the command itself)")
	flag.Parse()
	var err error
	if *client != "" {
		err = read(*client, *seconds)
	} else {
		err = compare(*rounds, *seconds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// compare prints the figures of both clients.
func compare(rounds int, seconds float64) error {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bench, server, err := build(dir)
	if err != nil {
		return err
	}
	share := filepath.Join(dir, "data")
	if err := os.Mkdir(share, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(share, "f"), make([]byte, fileSize), 0o644); err != nil {
		return err
	}
	url, stop, err := serve(server, share)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("4 KiB random reads, 32 in flight, reads of a second (median, least to most)")
	for _, provider := range []string{"shm", "iwarp"} {
		url := url + "?provider=" + provider
		length := strconv.FormatFloat(seconds, 'f', -1, 64)
		var goRates, cRates []float64
		for range rounds {
			for _, c := range []struct {
				rates *[]float64
				args  []string
			}{
				{&goRates, []string{self, "-client", url, "-seconds", length}},
				{&cRates, []string{bench, url, "f", strconv.Itoa(fileSize), length}},
			} {
				rate, err := rateOf(filepath.Join(dir, "lib"), c.args)
				if err != nil {
					return err
				}
				*c.rates = append(*c.rates, rate)
			}
		}
		fmt.Printf("%-6s Go Batch %s, C library %s, ratio %.2f\n", provider, show(goRates), show(cRates), median(cRates)/median(goRates))
	}
	return nil
}

// build builds the library, the client in C and the server, and returns the names of the two programs.
func build(dir string) (bench, server string, err error) {
	bench, server = filepath.Join(dir, "bench"), filepath.Join(dir, "lwio")
	for _, args := range [][]string{
		{"go", "run", "./build", "-prefix", dir, "-static=false"},
		{"cc", "-O2", "-o", bench, "-I" + filepath.Join(dir, "include"), "testdata/bench.c", "-L" + filepath.Join(dir, "lib"), "-llwio"},
		{"go", "build", "-C", "..", "-o", server, "./cmd/lwio"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return bench, server, nil
}

// serve starts the server on the second processor and returns its URL.
func serve(server, dir string) (url string, stop func(), err error) {
	cmd := exec.Command("taskset", "-c", "1", server, "serve", "--listen", "127.0.0.1:0", "share="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// rateOf runs a client on the first processor.
func rateOf(lib string, args []string) (float64, error) {
	cmd := exec.Command("taskset", append([]string{"-c", "0"}, args...)...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", args[0], err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// read is the client in Go. It prints the reads of a second.
func read(url string, seconds float64) error {
	ctx := context.Background()
	c, err := lwio.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.Open(ctx, "f")
	if err != nil {
		return err
	}
	buf, err := c.Alloc(ctx, depth*part)
	if err != nil {
		return err
	}
	defer buf.Close()
	b := c.NewBatch(depth)
	defer b.Close()
	var (
		memory = buf.Bytes()
		random = uint64(88172645463325252)
		reads  int
		done   = make([]lwio.Completion, depth)
	)
	for i := range done {
		done[i].Tag = uint64(i)
	}
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	for {
		for _, d := range done {
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			off := int64(random%(fileSize/part)) * part
			if err := b.ReadAt(f, memory[d.Tag*part:][:part], off, d.Tag); err != nil {
				return err
			}
		}
		if err := b.Submit(ctx); err != nil {
			return err
		}
		if done, err = b.Wait(ctx, 1); err != nil {
			return err
		}
		for _, d := range done {
			if d.Err != nil {
				return d.Err
			}
		}
		if reads += len(done); time.Now().After(end) {
			break
		}
	}
	fmt.Printf("%.0f\n", float64(reads)/time.Since(begin).Seconds())
	return nil
}

func median(rates []float64) float64 {
	sorted := slices.Sorted(slices.Values(rates))
	return sorted[len(sorted)/2]
}

// show prints the median and the range of rates.
func show(rates []float64) string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", median(rates), slices.Min(rates), slices.Max(rates))
}
