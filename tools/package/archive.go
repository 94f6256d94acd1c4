package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// tarOf returns a tar archive of files and of the directories that they are in, which belong to root. All have one
// time.
func tarOf(files []entry, prefix string, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range directories(files) {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir, Mode: 0o755, ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.path, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		switch {
		case f.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		case f.mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if f.owner != 0 {
			h.Uid, h.Gid, h.Uname, h.Gname = f.owner, f.owner, "", ""
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// directories returns the directories of files, outer ones first, each with a slash at its end. The first is
// empty: the root.
func directories(files []entry) []string {
	all := []string{""}
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			all = append(all, dir+"/")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// member is a file of an ar archive.
type member struct {
	name string // at most 16 bytes
	data []byte
}

// arOf returns an ar archive.
//
// Source: deb(5), ar(5)
func arOf(members []member, date time.Time) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, date.Unix(), 0, 0, 0o100644, len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// indented joins the lines of a description as a control file has them.
func indented(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if line == "" {
			line = "."
		}
		lines[i] = " " + line
	}
	return strings.Join(lines, "\n")
}
