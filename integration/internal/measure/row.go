package measure

import "context"

// Job measures one run of a subject.
type Job interface {
	Run(ctx context.Context, l *Lab) (Sample, error)
}

// Subject is one way to do the work of a row.
type Subject struct {
	Name string
	Job  Job
}

// Row compares subjects that do the same work. Floors come first.
type Row struct {
	Name, Title string
	Subjects    []Subject
	Bars        []Bar
}

// Medians are the outcomes of a subject.
type Medians struct {
	Name    string             `json:"name"`
	Values  map[Figure]float64 `json:"medians,omitempty"`
	Runs    []Sample           `json:"-"`
	Failure string             `json:"failure,omitempty"` // the reason for missing medians
}

// Table is the outcome of a row.
type Table struct {
	Row      string    `json:"row"`
	Title    string    `json:"title"`
	Subjects []Medians `json:"subjects"`
	Bars     []Verdict `json:"bars"`
}

// Measure runs the subjects of a row in turns. A subject that fails is left out of the
// remaining rounds.
//
// Errors: the cause of ctx.
func (r Row) Measure(ctx context.Context, l *Lab) (Table, error) {
	t := Table{Row: r.Name, Title: r.Title, Subjects: make([]Medians, len(r.Subjects))}
	for i, s := range r.Subjects {
		t.Subjects[i].Name = s.Name
	}
	err := InTurns(l.Rounds, len(r.Subjects), func(i int) error {
		m := &t.Subjects[i]
		if m.Failure != "" {
			return nil
		}
		one, err := r.Subjects[i].Job.Run(ctx, l)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			m.Failure, m.Runs = err.Error(), nil
		default:
			m.Runs = append(m.Runs, one)
		}
		return nil
	})
	for i := range t.Subjects {
		t.Subjects[i].summarize()
	}
	for _, b := range r.Bars {
		t.Bars = append(t.Bars, b.judge(r.Name, t.Subjects))
	}
	return t, err
}

// summarize makes the medians of the runs.
func (m *Medians) summarize() {
	if len(m.Runs) == 0 {
		return
	}
	m.Values = make(map[Figure]float64)
	for f := range m.Runs[0] {
		var v []float64
		for _, r := range m.Runs {
			v = append(v, r[f])
		}
		m.Values[f] = Median(v)
	}
}
