package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"lwio/rdma/iwarp"
)

// latencyJSON is a distribution in microseconds.
type latencyJSON struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// directionJSON is the part of the reads, or of the writes, of a mixed job.
type directionJSON struct {
	Operations uint64       `json:"operations"`
	Bytes      uint64       `json:"bytes"`
	Latency    *latencyJSON `json:"latency_us,omitempty"`
}

// summaryJSON is a summary as a program reads it. The rates, the CPU times and p50 are medians
// of the runs; operations, bytes, runtime and the other latencies are of all runs together.
type summaryJSON struct {
	Provider       string         `json:"provider"`
	Completion     string         `json:"completion"`
	CRC            string         `json:"crc,omitempty"` // of iWARP
	RW             Pattern        `json:"rw"`
	ReadPercent    *int           `json:"rwmixread,omitempty"`
	Engine         Engine         `json:"ioengine,omitempty"`
	BlockSize      int            `json:"bs"`
	Depth          int            `json:"iodepth"`
	Jobs           int            `json:"numjobs"`
	IOPS           float64        `json:"iops"`
	BytesPerSecond float64        `json:"bytes_per_second"`
	Runtime        float64        `json:"runtime_s"`
	Operations     uint64         `json:"operations"`
	Bytes          uint64         `json:"bytes"`
	Latency        *latencyJSON   `json:"latency_us,omitempty"`
	Read           *directionJSON `json:"read,omitempty"`
	Write          *directionJSON `json:"write,omitempty"`
	ClientCPU      float64        `json:"client_cpu_us_per_op"`
	ServerCPU      *float64       `json:"server_cpu_us_per_op"` // null if it is unknown
	Errors         uint64         `json:"errors"`
	Failure        string         `json:"failure,omitempty"`
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// latencyOf is the distribution of a histogram, nil for an empty one.
func latencyOf(h *Histogram) *latencyJSON {
	if h.Count() == 0 {
		return nil
	}
	return &latencyJSON{micros(h.Mean()), micros(h.Quantile(0.5)), micros(h.Quantile(0.99)), micros(h.Quantile(0.999)), micros(h.Max())}
}

// WriteJSON writes the summaries of a job as a JSON array.
func WriteJSON(out io.Writer, j *Job, all []Summary) error {
	rows := make([]summaryJSON, 0, len(all))
	for _, s := range all {
		r := summaryJSON{
			Provider: s.Target, Completion: s.Completion, CRC: j.crcOf(s), RW: j.Pattern, Engine: j.Engine,
			BlockSize: j.BlockSize, Depth: j.Depth, Jobs: j.Jobs,
			IOPS: s.IOPS, BytesPerSecond: s.BytesPerSecond, Runtime: s.Took.Seconds(), Operations: s.Operations, Bytes: s.Bytes,
			Latency: latencyOf(s.Latency), ClientCPU: micros(s.ClientPerOp), Errors: s.Errors,
		}
		if r.Latency != nil {
			r.Latency.P50 = micros(s.P50)
		}
		if s.ServerPerOp >= 0 && s.Operations > 0 {
			us := micros(s.ServerPerOp)
			r.ServerCPU = &us
		}
		if j.Pattern.mixed() {
			r.ReadPercent = &j.ReadPercent
			r.Read = &directionJSON{s.Reads.Operations, s.Reads.Bytes, latencyOf(s.Reads.Latency)}
			r.Write = &directionJSON{s.Writes.Operations, s.Writes.Bytes, latencyOf(s.Writes.Latency)}
		}
		if s.Failure != nil {
			r.Failure = s.Failure.Error()
		}
		rows = append(rows, r)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

// floorOf returns the local floor; nil if there is none, or no other summary.
func floorOf(all []Summary) *Summary {
	if len(all) > 1 && all[0].Target == (*Local)(nil).Name() && all[0].IOPS > 0 && all[0].ClientPerOp > 0 {
		return &all[0]
	}
	return nil
}

// headline prints the saving of offloading: the CPU time of the transport with which the
// client spends least on an operation, relative to a local operation.
func headline(out io.Writer, floor *Summary, all []Summary) {
	var least *Summary
	for i := range all[1:] {
		if s := &all[i+1]; s.Operations > 0 && (least == nil || s.ClientPerOp < least.ClientPerOp) {
			least = s
		}
	}
	if least == nil {
		return
	}
	cpu, rate, verdict := ratio(least.ClientPerOp, floor.ClientPerOp), least.IOPS/floor.IOPS, "less CPU than local I/O"
	if cpu >= 1 {
		verdict = "no less CPU than local I/O"
	}
	fmt.Fprintf(out, "%s: the client spends %.2f of it with %s, at %.2f of the rate\n\n", verdict, cpu, least.label(), rate)
}

// label is the transport, and its completion mode where there is a choice.
func (s *Summary) label() string {
	if s.Completion == "" {
		return s.Target
	}
	return s.Target + ", " + s.Completion
}

// crcOf describes the CRCs of a target, "" where there are none.
func (j *Job) crcOf(s Summary) string {
	if s.Target != iwarp.Name {
		return ""
	}
	return j.CRC
}

// WriteTable writes the summaries of a job as a table. If the first is the local floor, the
// table has ratios to it, of the rate and of the client's CPU, and begins with the saving of
// offloading.
func WriteTable(out io.Writer, j *Job, all []Summary) error {
	floor := floorOf(all)
	if floor != nil {
		headline(out, floor, all)
	}
	connections := "connections"
	if j.Jobs == 1 {
		connections = "connection"
	}
	pattern := string(j.Pattern)
	if j.Pattern.mixed() {
		pattern += fmt.Sprintf(" with %d %% reads", j.ReadPercent)
	}
	fmt.Fprintf(out, "%s, blocks of %s, %d in flight, %d %s, %v each\n",
		pattern, FormatSize(int64(j.BlockSize)), j.Depth, j.Jobs, connections, j.Runtime)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "transport\tcompletion\tops/s\tMB/s\tmean us\tp50 us\tp99 us\tp99.9 us\tclient CPU us/op\tserver CPU us/op\t"
	if floor != nil {
		head += "rate / local\tclient CPU / local\t"
	}
	fmt.Fprintln(w, head)
	for _, s := range all {
		name := s.Target
		if crc := j.crcOf(s); crc != "" {
			name += ", CRC " + crc
		}
		fmt.Fprint(w, name, "\t", s.Completion, "\t")
		if s.Operations == 0 {
			fmt.Fprint(w, "-\t-\t-\t-\t-\t-\t-\t-\t")
		} else {
			fmt.Fprintf(w, "%.0f\t%.1f\t%s%.2f\t%s\t", s.IOPS, s.BytesPerSecond/1e6, s.latencies(), micros(s.ClientPerOp), known(s.ServerPerOp))
			if floor != nil {
				fmt.Fprintf(w, "%.2f\t%.2f\t", s.IOPS/floor.IOPS, ratio(s.ClientPerOp, floor.ClientPerOp))
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if s.Errors > 0 {
			fmt.Fprintf(out, "%s: %d operations failed\n", s.Target, s.Errors)
		}
	}
	return nil
}

// latencies are the columns of the latencies.
func (s *Summary) latencies() string {
	l := latencyOf(s.Latency)
	if l == nil {
		return "-\t-\t-\t-\t"
	}
	return fmt.Sprintf("%.1f\t%.1f\t%.1f\t%.1f\t", l.Mean, micros(s.P50), l.P99, l.P999)
}

// known is a CPU time, or a question mark for an unknown one.
func known(d time.Duration) string {
	if d < 0 {
		return "?"
	}
	return fmt.Sprintf("%.2f", micros(d))
}

func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
