package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// fault is one deliberate fault: a place in a file, and the code that stands there instead.
type fault struct {
	name     string
	file     string // relative to the top of the checkout
	packages []string
	flags    []string // of go test
	mayHang  bool     // a test that hangs until the time limit kills the fault
	old, new string   // whole lines
}

// args returns the arguments of go test for the tests of the fault, in the directory of their module. Flags of the tests
// themselves must stand behind the packages.
func (f fault) args() []string {
	var args []string
	for _, pkg := range f.packages {
		args = append(args, strings.Replace(pkg, integration, "./", 1))
	}
	return append(args, f.flags...)
}

// integration begins the names of packages of the module with that name. The packages of a fault are of one
// module.
const integration = "./integration/"

// module returns the directory of the module of the tests.
func (f fault) module() string {
	if strings.HasPrefix(f.packages[0], integration) {
		return integration
	}
	return "."
}

// parse reads a list of faults. A fault begins with a line "# NAME". The next line is
// "FILE [FLAG...] [PACKAGE...]": flags of go test, or of the tests, begin with "-", and the default package is
// the package of the file. The word "time-limit" among them says that a test which notices the
// fault can only hang. Lines that begin with "-" stand in the file. Lines that begin
// with "+" replace them. Empty lines separate faults; lines that begin with "//" are
// comments.
func parse(text string) ([]fault, error) {
	var all []fault
	var f *fault
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "# "):
			all = append(all, fault{name: strings.TrimPrefix(line, "# ")})
			f = &all[len(all)-1]
		case f == nil:
			return nil, fmt.Errorf("line %d: a fault begins with \"# NAME\"", i+1)
		case strings.HasPrefix(line, "-"):
			f.old += line[1:] + "\n"
		case strings.HasPrefix(line, "+"):
			f.new += line[1:] + "\n"
		case f.file == "":
			fields := strings.Fields(line)
			f.file = fields[0]
			for _, arg := range fields[1:] {
				switch {
				case arg == "time-limit":
					f.mayHang = true
				case strings.HasPrefix(arg, "-"):
					f.flags = append(f.flags, arg)
				default:
					f.packages = append(f.packages, arg)
				}
			}
			if len(f.packages) == 0 {
				f.packages = []string{"./" + filepath.Dir(f.file)}
			}
		default:
			return nil, fmt.Errorf("line %d: %q is no part of a fault", i+1, line)
		}
	}
	names := map[string]bool{}
	for _, f := range all {
		switch {
		case names[f.name]:
			return nil, fmt.Errorf("two faults have the name %q", f.name)
		case f.file == "" || f.old == "" || f.old == f.new:
			return nil, fmt.Errorf("fault %q changes nothing", f.name)
		}
		names[f.name] = true
	}
	return all, nil
}

var (
	errNotFound  = errors.New("the place is not found")
	errAmbiguous = errors.New("the place is found more than once")
)

// apply returns text with the fault in it. White space at the beginning of lines does not
// count, so that a fault survives a change of indentation.
func (f fault) apply(text string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	want := trimmed(strings.SplitAfter(strings.TrimSuffix(f.old, "\n"), "\n"))
	have := trimmed(lines)
	at := -1
	for i := 0; i+len(want) <= len(have); i++ {
		if !equal(have[i:i+len(want)], want) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("%s: %w", f.file, errAmbiguous)
		}
		at = i
	}
	if at < 0 {
		return "", fmt.Errorf("%s: %w", f.file, errNotFound)
	}
	return strings.Join(lines[:at], "") + f.new + strings.Join(lines[at+len(want):], ""), nil
}

func trimmed(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimSpace(l)
	}
	return out
}

func equal(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
