// Package packaging_test builds the packages, and checks them with the tools of Debian.
package packaging_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lwio/internal/test/skip"
)

// exposure is the most that 'systemd-analyze security' may rate the service, in tenths. systemd calls up to 49 OK.
const exposure = 25

// need finds a program, or skips the test.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	skip.Test(t, "a program is not installed", program)
	return ""
}

// run runs a program, which must succeed, and returns its standard output. vars are added to its environment.
func run(t *testing.T, vars []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), vars...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &out, &failure)
	}
	return out.String()
}

// build builds the packages in a directory, and returns the paths of the one for Debian and of the image.
func build(t *testing.T, dir string) (deb, image string) {
	t.Helper()
	out := run(t, []string{"SOURCE_DATE_EPOCH=1790000000"}, "go", "run", "-C", filepath.Join("..", "..", "tools"), "./package",
		"-out", dir, "-version", "1.2-3", "-maintainer", "LWIO <lwio@packages.debian.org>")
	paths := strings.Fields(out)
	if len(paths) != 2 || filepath.Ext(paths[0]) != ".deb" || !strings.HasSuffix(paths[1], ".oci.tar") {
		t.Fatalf("the packages are %q", out)
	}
	return paths[0], paths[1]
}

// equal reports whether two files have the same bytes.
func equal(t *testing.T, a, b string) bool {
	t.Helper()
	var all [2][]byte
	for i, name := range []string{a, b} {
		var err error
		if all[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Equal(all[0], all[1])
}

// TestDebianPackage builds the packages twice, and checks the one for Debian with lintian, mandoc, bash and systemd. The program in it
// runs, and says the version.
func TestDebianPackage(t *testing.T) {
	lintian, deb, mandoc, analyze := need(t, "lintian"), need(t, "dpkg-deb"), need(t, "mandoc"), need(t, "systemd-analyze")
	file, image := build(t, t.TempDir())
	if again, imageAgain := build(t, t.TempDir()); !equal(t, file, again) || !equal(t, image, imageAgain) {
		t.Error("two packages of the same sources differ")
	}
	run(t, nil, lintian, "--fail-on", "error,warning", file)
	root := t.TempDir()
	run(t, nil, deb, "-x", file, root)
	in := func(path string) string { return filepath.Join(root, path) }
	if out := run(t, nil, in("usr/bin/lwio"), "version"); !strings.HasPrefix(out, "lwio 1.2-3, ") {
		t.Errorf("the version is %q", out)
	}
	pages := t.TempDir()
	packed, err := filepath.Glob(in("usr/share/man/man1/*.gz"))
	if err != nil || len(packed) < 20 {
		t.Errorf("%d manual pages, %v", len(packed), err)
	}
	for _, name := range packed {
		page := filepath.Join(pages, strings.TrimSuffix(filepath.Base(name), ".gz"))
		if err := os.WriteFile(page, []byte(run(t, nil, "gzip", "-dc", name)), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, nil, mandoc, "-Tlint", "-Wstyle", page)
	}
	run(t, nil, "bash", "-n", in("usr/share/bash-completion/completions/lwio"))
	run(t, nil, analyze, "security", "--offline=true", fmt.Sprintf("--threshold=%d", exposure), in("usr/lib/systemd/system/lwio.service"))
	for name, target := range map[string]string{"usr/sbin/mount.lwio": "usr/bin/lwio", "usr/share/man/man8/mount.lwio.8.gz": "usr/share/man/man1/lwio-mount.1.gz"} {
		link, err := filepath.EvalSymlinks(in(name))
		if want, _ := filepath.EvalSymlinks(in(target)); err != nil || link != want {
			t.Errorf("%s leads to %s, %v", name, link, err)
		}
	}
}

// TestDebianInstallation installs the package into a directory, as dpkg does for another system: there is the user with
// its directory, a configuration that was changed outlives an upgrade, and a purge leaves neither.
func TestDebianInstallation(t *testing.T) {
	dpkg := need(t, "dpkg")
	need(t, "systemd-sysusers")
	if os.Getuid() != 0 {
		skip.Test(t, "only root installs packages")
	}
	file, _ := build(t, t.TempDir())
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg"), 0o755); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		return run(t, []string{"DEBIAN_FRONTEND=noninteractive"}, dpkg, append([]string{
			"--root=" + root, "--log=/dev/null", "--force-script-chrootless,depends,confold"}, args...)...)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	do("-i", file)
	if users := read("etc/passwd"); !strings.Contains(users, "lwio:") || !strings.Contains(users, ":/var/lib/lwio:") {
		t.Errorf("the users are %q", users)
	}
	users, config := filepath.Join(root, "var/lib/lwio"), filepath.Join(root, "etc/lwio/server.toml")
	if info, err := os.Stat(users); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the users: %v, %v", info, err)
	}
	changed := read("etc/lwio/server.toml") + "# a change\n"
	if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	do("-i", file)
	if read("etc/lwio/server.toml") != changed {
		t.Error("an upgrade has replaced a configuration that was changed")
	}
	do("-r", "lwio")
	if read("etc/lwio/server.toml") != changed {
		t.Error("a removal has changed the configuration")
	}
	do("-P", "lwio")
	for _, name := range []string{users, config, filepath.Join(root, "usr/bin/lwio")} {
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("a purge has left %s: %v", name, err)
		}
	}
}
