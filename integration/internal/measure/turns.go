// Package measure runs the comparisons of the figures: processes that keep to one core, their
// CPU times, rows of subjects in turns, medians, bars and tables.
package measure

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// InTurns calls run for each of n subjects, rounds times. Each round has a random order of its
// own, because the cost of a run often depends on the run before it.
func InTurns(rounds, n int, run func(subject int) error) error {
	for range rounds {
		for _, i := range rand.Perm(n) {
			if err := run(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// Median is the middle value, the upper one of two. There must be at least one.
func Median[T cmp.Ordered](values []T) T {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}
