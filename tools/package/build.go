package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// built is the result of the sources.
type built struct {
	program     []byte
	pages       map[string][]byte // manual pages by name, as in lwio.1
	completions map[string][]byte // by shell
	copyright   []byte
}

// build builds the program, and runs it on this host for its manual pages and completions.
func build(r *release, work string) (*built, error) {
	program := filepath.Join(work, "lwio")
	if err := r.compile(program, "linux", r.arch); err != nil {
		return nil, err
	}
	here := program
	if r.arch != runtime.GOARCH || runtime.GOOS != "linux" {
		here = filepath.Join(work, "lwio-here")
		if err := r.compile(here, runtime.GOOS, runtime.GOARCH); err != nil {
			return nil, err
		}
	}
	b := &built{completions: map[string][]byte{}}
	var err error
	if b.program, err = os.ReadFile(program); err != nil {
		return nil, err
	}
	if b.pages, err = pages(here, filepath.Join(work, "man"), r.date); err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := exec.Command(here, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion of %s: %w", shell, err)
		}
		b.completions[shell] = script
	}
	b.copyright, err = r.copyright()
	return b, err
}

// compile builds the command without cgo, so that it runs with every C library.
func (r *release) compile(out, system, arch string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.packaged="+r.version, "-o", out, "./cmd/lwio")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// pages runs a program for its manual pages.
func pages(program, dir string, date time.Time) (map[string][]byte, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if text, err := exec.Command(program, "manual", "--date", date.Format(time.DateOnly), dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("manual pages: %w\n%s", err, text)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// notice is the license of the project. Debian has its text.
const notice = `LWIO: remote file I/O over RDMA.

Copyright: the authors of LWIO.

Licensed under the Apache License, Version 2.0. On Debian systems its text is in
/usr/share/common-licenses/Apache-2.0.

The program also contains the standard library of Go and the modules below, each
under its own license.
`

// copyright returns the licenses of the program and of all modules that are linked into it.
func (r *release) copyright() ([]byte, error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "./cmd/lwio")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+r.arch)
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	goroot, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(list)), " ", "\x00"))
	slices.Sort(modules)
	modules = append(slices.Compact(modules), "Go\x00"+runtime.Version()+"\x00"+goroot)
	b := bytes.NewBufferString(notice)
	for _, m := range modules {
		field := strings.Split(m, "\x00")
		if len(field) != 3 {
			return nil, fmt.Errorf("go list: %q", m)
		}
		text, err := licenseIn(field[2])
		if err != nil {
			return nil, fmt.Errorf("license of %s: %w", field[0], err)
		}
		fmt.Fprintf(b, "\n%s\n%s %s\n\n%s\n", strings.Repeat("-", 72), field[0], field[1], strings.TrimSpace(text))
	}
	return b.Bytes(), nil
}

// licenseFile matches the names of files with licenses.
var licenseFile = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying|^notice`)

// licenseIn returns the license files of a directory. The text of the Apache License is in Debian.
//
// Errors: there is none.
func licenseIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		if strings.Contains(string(text), "Apache License") && strings.Contains(string(text), "TERMS AND CONDITIONS") {
			text = []byte("Licensed under the Apache License, Version 2.0:\n/usr/share/common-licenses/Apache-2.0")
		}
		all = append(all, strings.TrimSpace(string(text)))
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%s has no license: %w", dir, os.ErrNotExist)
	}
	return strings.Join(all, "\n\n"), nil
}
