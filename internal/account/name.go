package account

import (
	"strings"
	"unicode"
)

// Fold maps all spellings of a user name to one string. Two names have the same result if and
// only if strings.EqualFold reports them equal.
func Fold(name string) string { return strings.Map(foldRune, name) }

// foldRune returns the smallest character that is equal to r without regard to case.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
