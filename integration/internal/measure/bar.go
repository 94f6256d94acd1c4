package measure

import "fmt"

// Kind is the comparison of a bar.
type Kind string

// The comparisons of a bar.
const (
	AtMost  Kind = "at most"  // times the figure of the other subject, or by itself
	AtLeast Kind = "at least" // times the figure of the other subject
	Plus    Kind = "at most plus"
	// PlusFloor compares with the figure of the other subject plus times the figure of the floor.
	PlusFloor Kind = "at most plus floor"
)

// Values of Bar.Beside that name no single subject.
const (
	Best = -1 // the subject whose figure is the largest
	None = -2 // the figure is compared with the amount itself
)

// nearFloor is the part of the floor that passes a bar which the floor itself misses.
const nearFloor = 0.9

// Bar is a condition on a figure of a subject, beside another subject of the same row.
type Bar struct {
	Ours, Beside int // indices of subjects, or Best, or None
	Figure       Figure
	Kind         Kind
	Amount       float64
	floors       floors
}

// floors are the floors of a bar, as indices of subjects plus 1; 0 is none.
type floors struct {
	one           int
	without, with int // their difference is the floor
}

// Or is the bar with a floor: if the floor misses the bar too, nine tenths of the floor
// pass. For a PlusFloor bar the floor is the summand.
func (b Bar) Or(floor int) Bar {
	b.floors.one = floor + 1
	return b
}

// Between is a PlusFloor bar with a second floor: the figure of one subject less that of another, which does
// the same without the work in question. If this floor misses the bar too, nine tenths of it pass.
func (b Bar) Between(without, with int) Bar {
	b.floors.without, b.floors.with = without+1, with+1
	return b
}

// Verdict is a bar and its result.
type Verdict struct {
	Row    string  `json:"row"`
	Ours   string  `json:"ours"`
	Beside string  `json:"beside,omitempty"`
	Figure Figure  `json:"figure"`
	Value  float64 `json:"value"`
	Other  float64 `json:"beside_value,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
	Bar    string  `json:"bar"`
	Pass   bool    `json:"pass"`
	// ByFloor names the floor by which the bar passes, with the ratio to it.
	ByFloor string `json:"by_floor,omitempty"`
	// Cost has the floors of a PlusFloor bar.
	Cost *Cost `json:"cost,omitempty"`
	// Missing is the reason for a missing figure.
	Missing string `json:"missing,omitempty"`
}

// text is the bar in words.
func (b Bar) text() string {
	switch {
	case b.Beside == None:
		return fmt.Sprintf("%s %s", AtMost, b.Figure.Format(b.Amount))
	case b.Kind == Plus:
		return fmt.Sprintf("at most %s more", b.Figure.Format(b.Amount))
	case b.Kind == PlusFloor:
		return fmt.Sprintf("at most %g of the floor more", b.Amount)
	}
	return fmt.Sprintf("%s %g", b.Kind, b.Amount)
}

// reached reports whether a value passes the bar beside another one.
func (b Bar) reached(value, other float64) bool {
	switch {
	case b.Beside == None:
		return value <= b.Amount
	case b.Kind == Plus:
		return value <= other+b.Amount
	case b.Kind == AtLeast:
		return value >= b.Amount*other
	}
	return value <= b.Amount*other
}

// judge compares the subjects of a row.
func (b Bar) judge(row string, all []Medians) Verdict {
	v := Verdict{Row: row, Ours: all[b.Ours].Name, Figure: b.Figure, Bar: b.text()}
	var ok bool
	if v.Value, ok = all[b.Ours].Values[b.Figure]; !ok {
		v.Missing = all[b.Ours].Failure
		return v
	}
	if b.Beside != None {
		beside := b.beside(all)
		v.Beside = all[beside].Name
		if v.Other, ok = all[beside].Values[b.Figure]; !ok {
			v.Missing = all[beside].Failure
			return v
		}
		v.Ratio = v.Value / v.Other
	}
	if b.Kind == PlusFloor {
		return b.judgeCost(v, all)
	}
	v.Pass = b.reached(v.Value, v.Other)
	if floor, ok := b.floorOf(all); ok && !v.Pass && !b.reached(floor, v.Other) {
		part := v.Value / floor
		if b.Kind != AtLeast {
			part = floor / v.Value
		}
		if part >= nearFloor {
			v.Pass, v.ByFloor = true, fmt.Sprintf("%.2f of %s", part, all[b.floors.one-1].Name)
		}
	}
	return v
}

// floorOf is the figure of the bar's floor, if it has one and the floor was measured.
func (b Bar) floorOf(all []Medians) (float64, bool) {
	if b.floors.one == 0 {
		return 0, false
	}
	v, ok := all[b.floors.one-1].Values[b.Figure]
	return v, ok
}

// beside is the index of the other subject.
func (b Bar) beside(all []Medians) int {
	if b.Beside != Best {
		return b.Beside
	}
	best := 0
	for i := range all {
		if all[i].Values[b.Figure] > all[best].Values[b.Figure] {
			best = i
		}
	}
	return best
}
