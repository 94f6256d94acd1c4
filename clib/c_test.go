package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/test/skip"
)

// built are the programs and libraries that the tests share.
var built struct {
	dir, command string // the directory of all, and the command lwio
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "clib")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built.dir, built.command = dir, filepath.Join(dir, "lwio")
		if out, err := exec.Command("go", "build", "-C", "..", "-o", built.command, "./cmd/lwio").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
			return 1
		}
		return m.Run()
	}())
}

// plain and sanitized install the library, once, and return the prefix.
var (
	plain     = sync.OnceValues(func() (string, error) { return install("plain") })
	sanitized = sync.OnceValues(func() (string, error) { return install("asan", "-asan", "-static=false") })
)

func install(name string, flags ...string) (string, error) {
	prefix := filepath.Join(built.dir, name)
	out, err := exec.Command("go", append([]string{"run", "./build", "-prefix", prefix}, flags...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return prefix, err
}

// run runs a program and returns its output.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pkgConfig returns the flags that lwio.pc has for a program.
func pkgConfig(t *testing.T, prefix string, flags ...string) []string {
	t.Helper()
	env := []string{"PKG_CONFIG_PATH=" + filepath.Join(prefix, "lib/pkgconfig")}
	return strings.Fields(run(t, env, "pkg-config", append(flags, "--cflags", "--libs", "lwio")...))
}

// strict are the flags with which all programs are compiled.
var strict = []string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"}

// compile compiles a program against the library of a prefix.
func compile(t *testing.T, prefix, source string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	args := slices.Concat(strict, flags, []string{"-o", program, source}, pkgConfig(t, prefix))
	run(t, nil, "cc", args...)
	return program
}

// library returns the setting with which a program finds the library of a prefix.
func library(prefix string) []string {
	return []string{"LD_LIBRARY_PATH=" + filepath.Join(prefix, "lib")}
}

// The header and the suite compile without a warning in every version of C and C++ in use.
func TestHeaderIsCAndCXX(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	include := "-I" + filepath.Join(prefix, "include")
	for _, std := range []string{"c99", "c11", "c17"} {
		args := slices.Concat(strict, []string{"-std=" + std, "-pedantic", include, "-c", "-o", os.DevNull, "testdata/suite.c"})
		run(t, nil, "cc", args...)
	}
	for _, std := range []string{"c++98", "c++11", "c++17"} {
		for _, source := range []string{"testdata/header.cpp", "testdata/suite.c"} {
			if std == "c++98" && source == "testdata/suite.c" {
				continue // it uses long long
			}
			args := slices.Concat(strict, []string{"-std=" + std, include, "-c", "-o", os.DevNull, "-x", "c++", source})
			run(t, nil, "g++", args...)
		}
	}
}

// The shared library exports the functions of the header and nothing else, under the name of the version.
func TestExportedNames(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile("lwio.h")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^(?:int|int64_t|const char) \*?(lwio_\w+)\(`).FindAllStringSubmatch(string(header), -1) {
		want = append(want, m[1]+"@@LWIO_1")
	}
	lib := filepath.Join(prefix, "lib/liblwio.so")
	for _, line := range strings.Split(strings.TrimSpace(run(t, nil, "nm", "-D", "--defined-only", lib)), "\n") {
		if fields := strings.Fields(line); fields[1] == "T" || fields[2] != "LWIO_1" {
			got = append(got, fields[2])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("exported: %v\nwant: %v", got, want)
	}
	if dynamic := run(t, nil, "readelf", "-d", lib); !strings.Contains(dynamic, "soname: [liblwio.so.1]") {
		t.Errorf("the name of the library: %s", dynamic)
	}
	man, err := os.ReadFile("lwio.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		name, _, _ = strings.Cut(name, "@")
		if !strings.Contains(string(man), name) {
			t.Errorf("the manual does not have %s", name)
		}
	}
	if out := run(t, nil, "mandoc", "-Tlint", "-Wwarning", "lwio.3"); out != "" {
		t.Error(out)
	}
}

// suite are the tests of testdata/suite.c that need nothing but a server.
var suite = []string{"basic", "options", "errors", "heads", "batch", "threads", "fork"}

// The suite passes over each provider with the sanitizers of addresses and of undefined behaviour, in the
// program and in the library.
func TestSuiteSanitized(t *testing.T) {
	prefix, err := sanitized()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, prefix, "testdata/suite.c", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	each(t, suite, func(t *testing.T, name, provider string) {
		run(t, library(prefix), program, name, serve(t, t.TempDir()).url+"?provider="+provider, provider)
	})
}

// The suite passes as a program in C++, with the static library.
func TestSuiteStatic(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	archive := filepath.Join(prefix, "lib/liblwio.a")
	include := "-I" + filepath.Join(prefix, "include")
	args := slices.Concat(strict, []string{"-std=c++11", include, "-o", program, "-x", "c++", "testdata/suite.c", "-x", "none", archive, "-lresolv"})
	run(t, nil, "g++", args...)
	each(t, suite, func(t *testing.T, name, provider string) {
		run(t, nil, program, name, serve(t, t.TempDir()).url+"?provider="+provider, provider)
	})
}

// valgrind finds no error and no leak in the suite and in the memory of the library that the program uses. It
// does not follow the runtime of Go, and so not which memory is initialized.
func TestSuiteValgrind(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, prefix, "testdata/suite.c", "-std=c11")
	each(t, []string{"basic", "errors"}, func(t *testing.T, name, provider string) {
		run(t, library(prefix), "valgrind", "-q", "--error-exitcode=9", "--undef-value-errors=no", "--leak-check=full", "--errors-for-leak-kinds=definite",
			"--suppressions=testdata/valgrind.supp", program, name, serve(t, t.TempDir()).url+"?provider="+provider, provider)
	})
}

// each runs a test for each name and provider.
func each(t *testing.T, names []string, test func(t *testing.T, name, provider string)) {
	for _, provider := range []string{"shm", "iwarp"} {
		for _, name := range names {
			t.Run(name+"/"+provider, func(t *testing.T) { test(t, name, provider) })
		}
	}
}

// A program carries on when its server is killed and started again, and has an error for every call when the
// server is gone and the program does not wait for it.
func TestServerRestarts(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, prefix, "testdata/suite.c", "-std=c11")
	each(t, []string{"restart"}, func(t *testing.T, name, provider string) {
		s := serve(t, t.TempDir())
		cmd := exec.Command(program, name, s.url+"?provider="+provider, provider)
		cmd.Env = append(os.Environ(), library(prefix)...)
		cmd.Stderr = t.Output()
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			address := s.address()
			s.kill()
			if lines.Text() == "restart" {
				s.start(address)
			}
			fmt.Fprintln(in)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A full disk is ENOSPC, with the bytes that are written, and the file can be used after that.
func TestDiskFull(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, prefix, "testdata/suite.c", "-std=c11")
	each(t, []string{"full"}, func(t *testing.T, name, provider string) {
		run(t, library(prefix), program, name, serve(t, smallDisk(t)).url+"?provider="+provider, provider)
	})
}

// smallDisk mounts a disk of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("clib", dir, "tmpfs", 0, "size=1m"); err != nil {
		skip.Test(t, "no right to mount", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The example of the manual compiles, copies the beginning of a file, and reports errors.
func TestExampleCopiesFile(t *testing.T) {
	prefix, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, prefix, "example/cat.c", "-std=c99", "-pedantic")
	dir := t.TempDir()
	text := strings.Repeat("0123456789", 100_000)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	if out := run(t, library(prefix), program, s.url, "f"); out != text {
		t.Errorf("%d bytes, want %d", len(out), len(text))
	}
	cmd := exec.Command(program, s.url, "missing")
	cmd.Env = append(os.Environ(), library(prefix)...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "open missing: no such file") {
		t.Errorf("%v: %s", err, out)
	}
}
