package main

import (
	"context"
	"fmt"

	"lwio/integration/internal/measure"
)

// table is what is known of a row.
type table struct {
	Row      string    `json:"row"`
	Title    string    `json:"title"`
	Subjects []medians `json:"subjects,omitempty"`
	Bars     []verdict `json:"bars"`
}

// medians are the medians of a subject's runs.
type medians struct {
	Name      string  `json:"name"`
	Rate      float64 `json:"operations_per_second"`
	Bytes     float64 `json:"bytes_per_second"`
	P50       float64 `json:"p50_us,omitempty"`
	ClientCPU float64 `json:"client_cpu_us_per_op"`
	ServerCPU float64 `json:"server_cpu_us_per_op"`
	Others    float64 `json:"cores_of_others"`
	Failure   string  `json:"failure,omitempty"` // why there are none
}

// verdict is a bar, and what came of it.
type verdict struct {
	Row    string  `json:"row"`
	Ours   string  `json:"ours"`
	Beside string  `json:"beside,omitempty"`
	Figure figure  `json:"figure"`
	Value  float64 `json:"value"`
	Other  float64 `json:"beside_value,omitempty"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio,omitempty"`
	Bar    string  `json:"bar"`
	Pass   bool    `json:"pass"`
	// Missing is why there is no figure.
	Missing string `json:"missing,omitempty"`
}

// measure runs the subjects of a row in turns. One that fails is left out of the
// rounds that remain.
func (r row) measure(ctx context.Context, l *lab) (table, error) {
	t := table{Row: r.name, Title: r.title}
	if r.special != nil {
		var err error
		t.Bars, err = r.special(ctx, l)
		for i := range t.Bars {
			t.Bars[i].Row = r.name
		}
		return t, err
	}
	runs, failures := make([][]outcome, len(r.subjects)), make([]error, len(r.subjects))
	for i, s := range r.subjects {
		if s.job.Way == wayNBD {
			failures[i] = missingNBD()
		}
	}
	err := measure.InTurns(l.rounds, len(r.subjects), func(i int) error {
		if failures[i] != nil {
			return nil
		}
		o, err := l.run(ctx, r.subjects[i].job)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failures[i] = err; err == nil {
			runs[i] = append(runs[i], o)
		}
		return nil
	})
	for i, s := range r.subjects {
		t.Subjects = append(t.Subjects, s.summarize(runs[i], failures[i]))
	}
	for _, b := range r.bars {
		t.Bars = append(t.Bars, b.judge(r.name, t.Subjects))
	}
	return t, err
}

// summarize makes the medians of a subject.
func (s subject) summarize(runs []outcome, failure error) medians {
	m := medians{Name: s.name}
	if failure != nil {
		m.Failure = failure.Error()
		return m
	}
	median := func(value func(outcome) float64) float64 {
		var v []float64
		for _, o := range runs {
			v = append(v, value(o))
		}
		return measure.Median(v)
	}
	m.Rate = median(outcome.rate)
	m.Bytes = m.Rate * float64(s.job.Size)
	m.P50 = median(func(o outcome) float64 { return float64(o.P50) / 1e3 })
	m.ClientCPU = median(outcome.cpu) / 1e3
	m.ServerCPU = median(outcome.serverCPU) / 1e3
	m.Others = median(outcome.others)
	return m
}

// value is a figure of a subject; a subject that failed has none.
func (m medians) value(f figure) (value float64, unit string, ok bool) {
	switch f {
	case rate:
		value, unit = m.Rate, "/s"
	case p50:
		value, unit = m.P50, "us"
	case cpu:
		value, unit = m.ClientCPU, "us"
	case space:
	}
	return value, unit, value > 0
}

// judge compares two subjects.
func (b bar) judge(row string, all []medians) verdict {
	beside := b.beside
	if beside == best {
		beside = 0
		for i := range all {
			if v, _, _ := all[i].value(b.figure); v > first(all[beside].value(b.figure)) {
				beside = i
			}
		}
	}
	v := verdict{Row: row, Ours: all[b.ours].Name, Beside: all[beside].Name, Figure: b.figure, Bar: fmt.Sprintf("%s %g", b.kind, b.amount)}
	var ours, other bool
	v.Value, v.Unit, ours = all[b.ours].value(b.figure)
	v.Other, _, other = all[beside].value(b.figure)
	if !ours || !other {
		v.Missing = all[b.ours].Failure
		if v.Missing == "" {
			v.Missing = all[beside].Failure
		}
		return v
	}
	v.Ratio = v.Value / v.Other
	v.Pass = b.kind == atMost && v.Ratio <= b.amount || b.kind == atLeast && v.Ratio >= b.amount
	return v
}

func first(v float64, _ string, _ bool) float64 { return v }
