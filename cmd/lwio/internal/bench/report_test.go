package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// summaries are a floor, a transport and a failure.
func summaries() []Summary {
	var h Histogram
	h.Add(time.Microsecond)
	h.Add(3 * time.Microsecond)
	seen := Direction{Operations: 2, Bytes: 1024, Latency: &h}
	return []Summary{
		{Target: "local", IOPS: 1000, BytesPerSecond: 512e3, P50: time.Microsecond, ClientPerOp: 2 * time.Microsecond, ServerPerOp: -1, Direction: seen},
		{Target: "shm", Completion: "interrupt", IOPS: 500, P50: 1500, ClientPerOp: time.Microsecond, ServerPerOp: 2500, Errors: 7, Direction: seen, Reads: seen, Writes: Direction{Latency: new(Histogram)}},
		{Target: "ib & co", Direction: Direction{Latency: new(Histogram)}, Failure: errors.New("no device")},
	}
}

func TestWriteJSONRows(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJSON(&out, job(), summaries()); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r["provider"] != "local" || r["rw"] != "randread" || r["bs"] != 512.0 || r["iodepth"] != 3.0 || r["iops"] != 1000.0 ||
		r["server_cpu_us_per_op"] != nil || r["client_cpu_us_per_op"] != 2.0 || r["latency_us"].(map[string]any)["p50"] != 1.0 {
		t.Errorf("%v", r)
	}
	if r := rows[1]; r["completion"] != "interrupt" || r["server_cpu_us_per_op"] != 2.5 || r["errors"] != 7.0 {
		t.Errorf("%v", r)
	}
	if r := rows[2]; r["failure"] != "no device" || r["latency_us"] != nil {
		t.Errorf("%v", r)
	}
}

func TestWriteTableHasRatios(t *testing.T) {
	var out strings.Builder
	if err := WriteTable(&out, job(), summaries()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if want := "less CPU than local I/O: the client spends 0.50 of it with shm, interrupt, at 0.50 of the rate"; lines[0] != want {
		t.Errorf("the headline is %q", lines[0])
	}
	lines = lines[2:]
	if !strings.Contains(lines[1], "rate / local") || !strings.Contains(lines[3], "0.50") || !strings.Contains(lines[3], "2.50") ||
		strings.Contains(lines[2], "0.00 ") || !strings.Contains(out.String(), "shm: 7 operations failed") {
		t.Errorf("%s", out.String())
	}
}

// The headline names the transport with the least CPU, and says if it is not less than the
// CPU of the floor. Without a floor there is no headline.
func TestHeadlineNamesCheapestTransport(t *testing.T) {
	all := summaries()
	more := all[1]
	more.Target, more.Completion, more.ClientPerOp, more.Errors = "iwarp", "", 3*time.Microsecond, 0
	j := job()
	j.CRC = "on"
	for want, rows := range map[string][]Summary{
		"less CPU than local I/O: the client spends 0.50 of it with shm, interrupt": {all[0], more, all[1]},
		"no less CPU than local I/O: the client spends 1.50 of it with iwarp, at":   {all[0], more, all[2]},
		"randread": {more, all[1]},
	} {
		var out strings.Builder
		if err := WriteTable(&out, j, rows); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), "iwarp, CRC on") {
			t.Errorf("%q begins otherwise: %s", want, out.String())
		}
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, j, []Summary{all[1], more}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"crc": "on"`); n != 1 {
		t.Errorf("%d rows tell of CRCs: %s", n, out.String())
	}
}

// A plot of any names and figures is well-formed.
func TestWritePlotIsWellFormed(t *testing.T) {
	for n, all := range [][]Summary{summaries(), summaries()[2:], nil} {
		var out bytes.Buffer
		if err := WritePlot(&out, job(), all); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%d: %s", n, s)
		}
		d := xml.NewDecoder(&out)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%d: %v", n, err)
			}
		}
	}
}
