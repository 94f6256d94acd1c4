package main

import (
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// debArch is Debian's name of an architecture.
func debArch(goarch string) string {
	switch goarch {
	case "386":
		return "i386"
	case "arm":
		return "armhf"
	case "ppc64le":
		return "ppc64el"
	}
	return goarch
}

// description describes the package to users.
const description = `
LWIO serves directories, and lets programs read and write the files of such
servers with little CPU time: the server moves the data by RDMA, over shared
memory on one host and over iWARP, which is RDMA over TCP, between hosts. No
RDMA hardware is necessary. SMB names the files and authenticates the users.

The package has the command lwio with the server, copies, a mount by FUSE, a
block device, and a service of systemd.
`

// debOf returns the package for Debian.
func debOf(r *release, b *built) ([]byte, error) {
	files, err := content(r, b)
	if err != nil {
		return nil, err
	}
	data, err := tarOf(files, "./", r.date)
	if err != nil {
		return nil, err
	}
	control, err := controlFiles(r, files)
	if err != nil {
		return nil, err
	}
	controlTar, err := tarOf(control, "./", r.date)
	if err != nil {
		return nil, err
	}
	return arOf([]member{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", compressed(controlTar)},
		{"data.tar.gz", compressed(data)},
	}, r.date), nil
}

// controlFiles are the files by which dpkg knows the package.
func controlFiles(r *release, files []entry) ([]entry, error) {
	var sums, conf strings.Builder
	size := 0 // KiB, as dpkg counts it
	for _, f := range files {
		size += (len(f.data) + 1023) / 1024
		if f.link != "" {
			continue
		}
		if f.conf {
			fmt.Fprintf(&conf, "/%s\n", f.path)
		} else {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.path)
		}
	}
	size += len(directories(files))
	control := fmt.Sprintf(`Package: lwio
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
Suggests: fuse3
Section: net
Priority: optional
Description: remote file I/O over RDMA, server and command
%s
`, r.version, debArch(r.arch), r.maintainer, size, indented(description))
	all := []entry{
		{path: "conffiles", mode: 0o644, data: []byte(conf.String())},
		{path: "control", mode: 0o644, data: []byte(control)},
		{path: "md5sums", mode: 0o644, data: []byte(sums.String())},
	}
	for _, script := range []string{"postinst", "postrm", "prerm"} {
		text, err := os.ReadFile(filepath.Join(r.root, "packaging", "debian", script))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{path: script, mode: 0o755, data: text})
	}
	return all, nil
}
