// Command words checks the language of the project: comments, identifiers, messages,
// test names and documents. It prints one line for each finding and exits with status 1
// if there is one.
//
//	go run -C tools ./words [DIR...]
//
// Without arguments it checks the files that git tracks in the whole checkout; with
// arguments, those below the directories, which are relative to the top of the checkout.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

func main() {
	counts := flag.Bool("counts", false, "print the number of findings of each directory instead of the findings")
	flag.Parse()
	findings, files, err := run(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if *counts {
		printCounts(findings)
	} else {
		for _, f := range findings {
			fmt.Println(f)
		}
	}
	fmt.Fprintf(os.Stderr, "words: %d findings in %d files\n", len(findings), files)
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// run checks the tracked files below dirs and returns the findings and the number of files
// read.
func run(dirs []string) ([]finding, int, error) {
	top, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, 0, err
	}
	root := strings.TrimSpace(top)
	list, err := output("git", append([]string{"-C", root, "ls-files", "-z", "--"}, dirs...)...)
	if err != nil {
		return nil, 0, err
	}
	var all []finding
	files := 0
	for _, name := range strings.Split(strings.TrimSuffix(list, "\x00"), "\x00") {
		kind := kindOf(name)
		if kind == ignored {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted in the work tree
		}
		if err != nil {
			return nil, 0, err
		}
		files++
		found, err := check(name, kind, text)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, found...)
	}
	return all, files, nil
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

func printCounts(findings []finding) {
	dirs := map[string]int{}
	for _, f := range findings {
		dirs[filepath.Dir(f.file)]++
	}
	names := make([]string, 0, len(dirs))
	for d := range dirs {
		names = append(names, d)
	}
	sort.Strings(names)
	for _, d := range names {
		fmt.Printf("%6d %s\n", dirs[d], d)
	}
}
