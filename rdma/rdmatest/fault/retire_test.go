package fault

import "testing"

// A table keeps the open queue pairs, and the queue pairs that were closed last.
func TestPairTableForgetsClosedPairs(t *testing.T) {
	var table pairTable
	open := &queuePair{number: 1 << 40}
	table.add(open)
	for n := range uint64(10 * keptPairs) {
		q := &queuePair{number: n + 1}
		table.add(q)
		table.retire(q)
		table.retire(q)
		if table.pairs[q.number] != q {
			t.Fatalf("queue pair %d is forgotten at once", q.number)
		}
	}
	if len(table.pairs) != keptPairs+1 || table.pairs[open.number] != open {
		t.Errorf("%d queue pairs are kept", len(table.pairs))
	}
}
