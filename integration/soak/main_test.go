package main

import "testing"

// Only growth that continues after the first rounds is an error.
func TestGrownSeesSteadyGrowth(t *testing.T) {
	rounds := func(of ...int64) (list []footprint) {
		for _, v := range of {
			list = append(list, footprint{Resident: v << 20})
		}
		return list
	}
	for _, calm := range [][]footprint{nil, rounds(1, 50, 100, 100, 100, 100), rounds(0, 0, 100, 80, 110, 90, 100)} {
		if err := grown("test", calm); err != nil {
			t.Error(err)
		}
	}
	if grown("test", rounds(0, 0, 100, 110, 120, 130)) == nil {
		t.Error("growth is not seen")
	}
}
