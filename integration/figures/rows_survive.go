package main

import (
	"fmt"

	"lwio/integration/internal/measure"
)

// ordinary bounds the cost of a state for opens that are not durable: the part of the rate that is left.
const ordinary = 0.98

// prepareSurvive builds the program of the rows of durable opens and of their state.
func prepareSurvive(l *measure.Lab, _ options) ([]measure.Row, error) {
	empty, full := &state{Opens: none}, &state{Opens: fullOpens}
	opens := fullOpens(l)
	return []measure.Row{
		calls("open-1", "an open and its close, one at a time", names{Call: opening, Flight: 1}),
		calls("open-16", "an open and its close, 16 in flight", names{Call: opening, Flight: 16}),
		calls("lock-1", "a lock and its release, one at a time", names{Call: locking, Flight: 1}),
		calls("lock-16", "a lock and its release, 16 in flight", names{Call: locking, Flight: 16}),
		written("open-record", "the records of an open and of its close", opening),
		written("lock-record", "the records of a lock and of its release", locking),
		{Name: "start", Title: "start of a server, until it serves", Subjects: []measure.Subject{
			{Name: "without --state", Job: restart{}},
			{Name: "empty state", Job: restart{empty}},
			{Name: fmt.Sprintf("%d opens, %d locks", opens, opens*heldLocks), Job: restart{full}},
			{Name: fmt.Sprintf("the records alone of %d opens, %d locks", opens, opens*writtenLocks), Job: loading{}},
		}},
	}, build(l)
}

// calls is the row of a load of calls.
func calls(name, title string, j names) measure.Row {
	durable := j
	durable.Durable = true
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "not durable", Job: j},
		{Name: "not durable, with --state", Job: j.withState()},
		{Name: "durable", Job: durable},
		{Name: "durable, with --state", Job: durable.withState()},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, ordinary)}}
}

func (j names) withState() names { j.State = true; return j }

// written is the row of the records of a call: the log, and the floors of writing as many bytes.
func written(name, title string, c call) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "floor: copies into mapped memory", Job: records{c, byCopy}},
		{Name: "floor: pwrites", Job: records{c, byPwrite}},
		{Name: "the log of the state", Job: records{c, byLog}},
	}}
}
