package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

var testDate = time.Unix(1_700_000_000, 0).UTC()

// An archive has the directories of its files first, and everything belongs to root and has one time.
func TestArchiveHasDirectoriesFirst(t *testing.T) {
	files := []entry{{path: "usr/bin/lwio", mode: 0o755, data: []byte("program")}, {path: "usr/sbin/mount.lwio", link: "../bin/lwio"}}
	b, err := tarOf(files, "./", testDate)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || !h.ModTime.Equal(testDate) {
			t.Errorf("%+v", h)
		}
		if h.Name == "./usr/sbin/mount.lwio" && (h.Typeflag != tar.TypeSymlink || h.Linkname != "../bin/lwio") {
			t.Errorf("%+v", h)
		}
	}
	if got := strings.Join(names, " "); got != "./ ./usr/ ./usr/bin/ ./usr/sbin/ ./usr/bin/lwio ./usr/sbin/mount.lwio" {
		t.Error(got)
	}
}

// The members of an ar archive begin at even offsets.
func TestArIsPadded(t *testing.T) {
	b := arOf([]member{{"debian-binary", []byte("2.0")}, {"next", nil}}, testDate)
	want := "!<arch>\n" +
		"debian-binary   1700000000  0     0     100644  3         `\n2.0\n" +
		"next            1700000000  0     0     100644  0         `\n"
	if string(b) != want {
		t.Errorf("%q", b)
	}
}

// A file of licenses names the Apache License, and has other texts.
func TestLicenseFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.md": true, "License.txt": true, "LICENCE": true, "UNLICENSE": true, "COPYING": true, "NOTICE": true,
		"README.md": false, "relicense.go": false,
	} {
		if licenseFile.MatchString(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	if _, err := licenseIn(t.TempDir()); err == nil {
		t.Error("a module without a license is accepted")
	}
}

// The names of architectures are Debian's.
func TestDebianArchitectures(t *testing.T) {
	for from, to := range map[string]string{"amd64": "amd64", "arm64": "arm64", "386": "i386", "ppc64le": "ppc64el"} {
		if got := debArch(from); got != to {
			t.Errorf("%s is %s", from, got)
		}
	}
}
