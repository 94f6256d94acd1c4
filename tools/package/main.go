// Command package builds the packages of the server and the command for Linux: a .deb for Debian,
// and an image for containers.
//
//	go run -C tools ./package [-out DIR] [-arch ARCH] [-version VERSION] [-maintainer "NAME <ADDRESS>"]
//
// It prints the paths of the files that it has made. It needs Go and git, and no other program: the formats of a
// package are an ar and two tar archives, and the libraries for them would bring hundreds of modules, some of which
// change the versions that the linter is built from.
//
// The content depends on the sources, the version, the time and the version of Go only. The time is
// SOURCE_DATE_EPOCH, in seconds, or that of the last commit.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release describes the packages of one run.
type release struct {
	root       string // of the checkout
	arch       string // GOARCH
	version    string // with the revision of the package, as in 1.0-1
	maintainer string // name and address
	date       time.Time
}

func main() {
	var r release
	out := flag.String("out", ".", "directory of the packages, relative to the top of the checkout")
	flag.StringVar(&r.arch, "arch", runtime.GOARCH, "architecture, as Go names it")
	flag.StringVar(&r.version, "version", "", "version and revision of the package (default: from the last commit)")
	flag.StringVar(&r.maintainer, "maintainer", "", "name and address (default: the author of the last commit)")
	flag.Parse()
	if err := run(&r, *out); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

func run(r *release, out string) error {
	if err := r.complete(); err != nil {
		return err
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(r.root, out)
	}
	work, err := os.MkdirTemp("", "lwio-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b, err := build(r, work)
	if err != nil {
		return err
	}
	deb, err := debOf(r, b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	image, err := imageOf(r, b)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		fmt.Sprintf("lwio_%s_%s.deb", r.version, debArch(r.arch)): deb,
		fmt.Sprintf("lwio_%s_%s.oci.tar", r.version, r.arch):      image,
	} {
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Println(filepath.Join(out, fmt.Sprintf("lwio_%s_%s.deb", r.version, debArch(r.arch))))
	fmt.Println(filepath.Join(out, fmt.Sprintf("lwio_%s_%s.oci.tar", r.version, r.arch)))
	return nil
}

// complete sets the checkout, the time, and the values without a flag.
func (r *release) complete() error {
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r.root = root
	commit, err := output("git", "-C", root, "log", "-1", "--format=%ct %h", "--abbrev=12")
	if err != nil {
		return err
	}
	seconds, hash, _ := strings.Cut(commit, " ")
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		seconds = given
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.date = time.Unix(n, 0).UTC()
	if r.version == "" {
		r.version = fmt.Sprintf("0~%s.%s-1", r.date.Format("20060102"), hash)
	}
	if r.maintainer == "" {
		r.maintainer, err = output("git", "-C", root, "log", "-1", "--format=%an <%ae>")
	}
	return err
}

// output runs a program and returns its output without the last line end.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
