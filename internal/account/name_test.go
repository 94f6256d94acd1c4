package account

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Fold distinguishes names exactly as strings.EqualFold does. A long s folds to s, and lower case
// does not change it.
func TestFoldAgreesWithEqualFold(t *testing.T) {
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"boss", "BOSS", true},
		{"boss", "bo\u017fs", true}, // long s
		{"kate", "\u212Aate", true}, // Kelvin sign
		{"ς", "Σ", true},
		{"alice", "bob", false},
		{"i", "\u0130", false}, // dotted capital I
		{"", "", true},
	} {
		if got := Fold(x.a) == Fold(x.b); got != x.same || strings.EqualFold(x.a, x.b) != x.same {
			t.Errorf("%q and %q: the same is %t, want %t", x.a, x.b, got, x.same)
		}
	}
	letters := rapid.SliceOfN(rapid.SampledFrom([]rune("sSſkK\u212AσΣςiIİı1")), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := string(letters.Draw(t, "a")), string(letters.Draw(t, "b"))
		if got, want := Fold(a) == Fold(b), strings.EqualFold(a, b); got != want {
			t.Errorf("%q and %q: the same is %t, want %t", a, b, got, want)
		}
	})
}
