// Package crash builds the command lwio with places at which its process kills itself. The product has no such
// places: the build replaces source files by changed copies.
package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Point is a place in the source.
type Point struct {
	// Name names the moment at which the process dies.
	Name string
	// File is a file of the module lwio. Line is a part of one line of it, which no other line has. The
	// place is before that line, or with After behind it.
	File, Line string
	After      bool
	// Most bounds the number of times that the process may pass the place before it dies, 1 for 0.
	Most int
}

// variable is the environment variable with the point of a process, and the number of the visit that it dies
// at. Only the changed command reads it.
const variable = "LWIO_CRASH"

// At returns the environment of a process that dies when it comes to a point for the n-th time.
func (p Point) At(n int) string { return variable + "=" + strconv.Itoa(n) + " " + p.Name }

// The package that the changed files call, and its source.
const (
	hookFile   = "internal/crash/crash.go"
	hookImport = `; import crashpoint "lwio/internal/crash"`
	hookSource = `package crash

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	visit, point, _ = strings.Cut(os.Getenv("` + variable + `"), " ")
	left            atomic.Int64
)

func init() {
	n, _ := strconv.ParseInt(visit, 10, 64)
	left.Store(n)
}

func At(name string) {
	if name == point && left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
`
)

// Build builds the command of the checkout at root with the points, and with other lines in place of some, into dir.
// It returns the name of the command.
//
// Errors: a line that is not in its file, or more than once; a failed build.
func Build(root, dir string, points []Point, instead []Line) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	files := make(map[string]string) // by their names in the module
	change := func(file, line string, replace func(found string) string) error {
		text, ok := files[file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return err
			}
			text = string(b)
		}
		text, err := changed(text, line, replace)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", file, line, err)
		}
		files[file] = text
		return nil
	}
	for _, p := range points {
		call := fmt.Sprintf("crashpoint.At(%q)\n", p.Name)
		err := change(p.File, p.Line, func(found string) string {
			if p.After {
				return found + call
			}
			return call + found
		})
		if err != nil {
			return "", err
		}
	}
	for file, text := range files {
		clause := strings.Index("\n"+text, "\npackage ")
		end := clause + strings.Index(text[clause:], "\n")
		files[file] = text[:end] + hookImport + text[end:]
	}
	for _, l := range instead {
		if err := change(l.File, l.Old, func(string) string { return l.New + "\n" }); err != nil {
			return "", err
		}
	}
	files[hookFile] = hookSource
	return build(root, dir, files)
}

// Line is a line of the source, named by a part of it that no other line has, and the line in its place.
type Line struct{ File, Old, New string }

var (
	errNoLine    = errors.New("no line of the file has that text")
	errManyLines = errors.New("several lines of the file have that text")
)

// changed replaces the line of text that has a part.
func changed(text, part string, replace func(found string) string) (string, error) {
	switch strings.Count(text, part) {
	case 0:
		return "", errNoLine
	case 1:
	default:
		return "", errManyLines
	}
	at := strings.Index(text, part)
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	end := at + strings.IndexByte(text[at:], '\n') + 1
	return text[:begin] + replace(text[begin:end]) + text[end:], nil
}

// build builds the command with other contents of files.
func build(root, dir string, files map[string]string) (string, error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range files {
		copied := filepath.Join(dir, "overlay", name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, name)] = copied
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "lwio-crash")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-C", root, "-trimpath", "-overlay", list, "-o", bin, "./cmd/lwio").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}
