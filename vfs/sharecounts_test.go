package vfs

import "testing"

// Two opens share a file if each allows the access of the other. The counters agree with that
// rule for every pair, and return to zero.
//
// Source: [MS-FSA 2.1.5.1.2.2]
func TestShareCountsMatchPairwiseRule(t *testing.T) {
	rights := []Access{ReadData, WriteData, AppendData, Execute, Delete, ReadAttributes}
	allows := func(m ShareMode, a Access) bool {
		return (a&(ReadData|Execute) == 0 || m&ShareRead != 0) &&
			(a&(WriteData|AppendData) == 0 || m&ShareWrite != 0) &&
			(a&Delete == 0 || m&ShareDelete != 0)
	}
	accesses := make([]Access, 1<<len(rights))
	for i := range accesses {
		for j, r := range rights {
			if i>>j&1 != 0 {
				accesses[i] |= r
			}
		}
	}
	for _, a1 := range accesses {
		for m1 := range ShareAll + 1 {
			var c shareCounts
			c.add(a1, m1, 1)
			for _, a2 := range accesses {
				for m2 := range ShareAll + 1 {
					silent := a1&^ReadAttributes == 0 || a2&^ReadAttributes == 0
					want := !silent && (!allows(m1, a2) || !allows(m2, a1))
					if got := c.conflicts(a2, m2); got != want {
						t.Fatalf("%x sharing %x, then %x sharing %x: conflict %v, want %v", a1, m1, a2, m2, got, want)
					}
				}
			}
			c.add(a1, m1, -1)
			if c != (shareCounts{}) {
				t.Fatalf("%x sharing %x leaves %+v", a1, m1, c)
			}
		}
	}
}
