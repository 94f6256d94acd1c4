// Package skip is the only way in which tests of this project skip, and holds the table of the
// skips that continuous integration accepts.
package skip

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// log names a file, by an environment variable, to which each skip adds a line.
const log = "SKIP_LOG"

// Test skips a test for a reason: a constant that is unique in its package. detail follows
// it. In continuous integration, where the variable CI is set, a skip that the table does
// not accept fails the test instead.
func Test(t testing.TB, reason string, detail ...any) {
	t.Helper()
	pkg := caller()
	if os.Getenv("CI") != "" && !accepts(table, pkg, reason) {
		t.Fatalf("%s; the table of accepted skips does not have %s", text(reason, detail), pkg)
	}
	if name := os.Getenv(log); name != "" {
		record(t, name, fmt.Sprintf("%s %s: %s\n", pkg, t.Name(), text(reason, detail)))
	}
	t.Skip(text(reason, detail))
}

// text is a reason with its detail.
func text(reason string, detail []any) string {
	if len(detail) == 0 {
		return reason
	}
	return reason + ": " + strings.TrimSuffix(fmt.Sprintln(detail...), "\n")
}

// record adds a line to a file, in one write.
func record(t testing.TB, name, line string) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

// caller is the package of the function that called Test.
func caller() string {
	pc, _, _, _ := runtime.Caller(2)
	return packageOf(runtime.FuncForPC(pc).Name())
}

// packageOf is the package of a function, by its full name. A package of external tests
// counts as the tested package.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	return strings.TrimSuffix(function[:slash+dot], "_test")
}

// accepts reports whether a table has a skip, and its condition holds.
func accepts(table []entry, pkg, reason string) bool {
	for _, e := range table {
		if e.pkg == pkg && e.reason == reason && (e.when == nil || e.when()) {
			return true
		}
	}
	return false
}
