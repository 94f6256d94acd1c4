// Package measure holds what the programs that print figures have in common: flags, runs
// in turns, medians, CPU times, and processes that keep to one core.
package measure

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// InTurns calls run for each of n subjects, rounds times. Each round has a random
// order of its own, because what ran before often decides what a run costs.
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

// Median is the middle one of the values, of which there must be one at least; of
// an even number it is the upper of two.
func Median[T cmp.Ordered](values []T) T {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}
