// Command shape prints the size of the code: for each package its files, its lines of code
// without comments and empty lines, and the identifiers that it exports, then the objects
// and functions that are larger than the guide of CONTRIBUTING.md.
//
//	go run -C tools ./shape [-all]
//
// It reads the Go files that git tracks in the checkout. Without -all it prints sums
// instead of a line for each package.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"text/tabwriter"
)

// The guide: past these numbers an object or a function holds a second idea.
const (
	guideFields   = 30
	guideMethods  = 40
	guideFunction = 60  // lines
	guideFile     = 400 // lines
)

func main() {
	all := flag.Bool("all", false, "print a line for each package")
	flag.Parse()
	if err := run(*all); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(all bool) error {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	root := strings.TrimSpace(string(top))
	list, err := exec.Command("git", "-C", root, "ls-files", "-z", "--", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	m := newMeasures()
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := m.add(name, text); err != nil {
			return err
		}
	}
	m.print(all)
	return nil
}

func (m *measures) print(all bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "package\tfiles\tcode\ttest files\ttest code\texported\t")
	dirs := make([]string, 0, len(m.packages))
	for dir := range m.packages {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	var sum size
	for _, dir := range dirs {
		s := m.packages[dir]
		sum.files += s.files
		sum.code += s.code
		sum.testFiles += s.testFiles
		sum.testCode += s.testCode
		if all || s.exported > 0 && public(dir) {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", dir, s.files, s.code, s.testFiles, s.testCode, s.exported)
		}
	}
	fmt.Fprintf(w, "all packages\t%d\t%d\t%d\t%d\t\t\n", sum.files, sum.code, sum.testFiles, sum.testCode)
	w.Flush()
	fmt.Printf("\nobjects above %d fields or %d methods:\n", guideFields, guideMethods)
	for _, o := range m.largeObjects() {
		fmt.Printf("  %s: %d fields, %d methods, %d files\n", o.name, o.fields, len(o.methods), len(o.files))
	}
	fmt.Printf("functions above %d lines: %d of %d\n", guideFunction, len(m.largeFunctions), m.functions)
	for _, f := range m.largeFunctions {
		fmt.Println("  " + f)
	}
	fmt.Printf("files above %d lines: %d\n", guideFile, len(m.largeFiles))
	for _, f := range m.largeFiles {
		fmt.Println("  " + f)
	}
}

// public reports whether programs can import the package in dir.
func public(dir string) bool {
	for _, part := range strings.Split(dir, "/") {
		switch part {
		case "internal", "cmd", "integration", "tools", "examples":
			return false
		}
	}
	return true
}
