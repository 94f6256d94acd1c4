// Command build builds liblwio and installs it with its header, its manual and its pkg-config file:
//
//	go run ./build -prefix /usr/local
//
// It needs a compiler for C. PREFIX/lib has liblwio.so and liblwio.a.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// soname is the name of the shared library: its number is LWIO_ABI_VERSION.
const soname = "liblwio.so.1"

func main() {
	prefix := flag.String("prefix", "/usr/local", "the `directory` to install in")
	destdir := flag.String("destdir", "", "a `directory` in front of the prefix, for packages")
	asan := flag.Bool("asan", false, "build with the address sanitizer, for programs that are built with it")
	race := flag.Bool("race", false, "build with the race detector")
	tags := flag.String("tags", "", "build `tags`")
	static := flag.Bool("static", true, "build the static library, too")
	flag.Parse()
	b := builder{prefix: *prefix, root: filepath.Join(*destdir, *prefix), asan: *asan, race: *race, tags: *tags}
	if err := b.install(*static); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// builder builds and installs.
type builder struct {
	prefix, root string // root is where the files of prefix are written
	asan, race   bool
	tags         string
}

func (b *builder) install(static bool) error {
	source, err := output("go", "list", "-f", "{{.Dir}}", "lwio/clib")
	if err != nil {
		return err
	}
	lib := filepath.Join(b.root, "lib")
	for _, dir := range []string{lib, filepath.Join(lib, "pkgconfig"), filepath.Join(b.root, "include"), filepath.Join(b.root, "share/man/man3")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	link := fmt.Sprintf("-extldflags '-Wl,--version-script=%s -Wl,-soname,%s -Wl,-z,defs'", filepath.Join(source, "lwio.map"), soname)
	if err := b.build("c-shared", filepath.Join(lib, soname), link); err != nil {
		return err
	}
	if static {
		if err := b.build("c-archive", filepath.Join(lib, "liblwio.a"), ""); err != nil {
			return err
		}
	}
	// The header that the go command writes has the functions in Go, and not those of the library.
	for _, name := range []string{"liblwio.so.h", "liblwio.h"} {
		if err := os.Remove(filepath.Join(lib, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := symlink(soname, filepath.Join(lib, "liblwio.so")); err != nil {
		return err
	}
	for from, to := range map[string]string{"lwio.h": "include/lwio.h", "lwio.3": "share/man/man3/lwio.3"} {
		if err := copyFile(filepath.Join(source, from), filepath.Join(b.root, to)); err != nil {
			return err
		}
	}
	version, err := versionOf(filepath.Join(source, "shim.h"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(lib, "pkgconfig/lwio.pc"), []byte(pkgConfig(b.prefix, version)), 0o644)
}

// build runs the go command for one kind of library.
func (b *builder) build(mode, name, link string) error {
	args := []string{"build", "-trimpath", "-buildmode=" + mode, "-ldflags=-s -w " + link, "-o", name}
	if b.asan {
		args = append(args, "-asan")
	}
	if b.race {
		args = append(args, "-race")
	}
	if b.tags != "" {
		args = append(args, "-tags", b.tags)
	}
	cmd := exec.Command("go", append(args, "lwio/clib")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// pkgConfig returns the file lwio.pc.
func pkgConfig(prefix, version string) string {
	return fmt.Sprintf(`prefix=%s
libdir=${prefix}/lib
includedir=${prefix}/include

Name: lwio
Description: Files of an LWIO server
Version: %s
Libs: -L${libdir} -llwio
Libs.private: -lpthread -lresolv
Cflags: -I${includedir}
`, prefix, version)
}

// versionOf returns LWIO_VERSION of a header.
func versionOf(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), `#define LWIO_VERSION "`)
	version, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return "", fmt.Errorf("%s has no LWIO_VERSION", name)
	}
	return version, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func symlink(to, name string) error {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(to, name)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
