// Package skips holds the table of tests that continuous integration may skip, and
// the only way in which tests of this module skip.
package skips

import (
	"fmt"
	"os"
	"testing"
)

// accepted says which tests may be skipped in CI, by name, and why.
func accepted() map[string]string {
	return map[string]string{}
}

// Skip skips a test because the machine lacks something. In CI, which sets the
// variable of that name, a test that is not in the table fails instead.
func Skip(t testing.TB, why error) {
	t.Helper()
	if err := refused(t.Name(), why, os.Getenv("CI") != "", accepted()); err != nil {
		t.Fatal(err)
	}
	t.Skip(why)
}

// refused tells why a test must not be skipped.
func refused(name string, why error, ci bool, table map[string]string) error {
	if !ci {
		return nil
	}
	if _, ok := table[name]; ok {
		return nil
	}
	return fmt.Errorf("%w, and the table of accepted skips does not have %s", why, name)
}
