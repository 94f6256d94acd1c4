package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file, a directory or a symbolic link of a package.
type entry struct {
	path string // without the leading slash
	mode fs.FileMode
	data []byte
	link string // the target of a symbolic link
	conf bool   // an administrator changes it; an upgrade keeps the change

	owner int // number of its user and group
}

// Directories of a package.
const (
	unitDir = "usr/lib/systemd/system/"
	docDir  = "usr/share/doc/lwio/"
	manDir  = "usr/share/man/"
)

// fromSources are files of the checkout and their places.
var fromSources = map[string]string{
	"packaging/systemd/lwio.service":      unitDir + "lwio.service",
	"packaging/systemd/lwio.socket":       unitDir + "lwio.socket",
	"packaging/systemd/lwio.sysusers":     "usr/lib/sysusers.d/lwio.conf",
	"packaging/systemd/lwio.tmpfiles":     "usr/lib/tmpfiles.d/lwio.conf",
	"packaging/server.toml":               "etc/lwio/server.toml",
	"packaging/prometheus/lwio.rules.yml": docDir + "examples/lwio.rules.yml",
	"packaging/grafana/lwio.json":         docDir + "examples/lwio.json",
	"packaging/debian/lintian-overrides":  "usr/share/lintian/overrides/lwio",
	"README.md":                           docDir + "README.md",
}

// content returns the files of the package, in the order of their paths.
func content(r *release, b *built) ([]entry, error) {
	all := []entry{
		{path: "usr/bin/lwio", mode: 0o755, data: b.program},
		{path: "usr/sbin/mount.lwio", link: "../bin/lwio"},
		{path: manDir + "man8/mount.lwio.8.gz", link: "../man1/lwio-mount.1.gz"},
		{path: "usr/share/bash-completion/completions/lwio", data: b.completions["bash"]},
		{path: "usr/share/zsh/vendor-completions/_lwio", data: b.completions["zsh"]},
		{path: "usr/share/fish/vendor_completions.d/lwio.fish", data: b.completions["fish"]},
		{path: docDir + "copyright", data: b.copyright},
		{path: docDir + "changelog.Debian.gz", data: compressed([]byte(debianChangelog(r)))},
	}
	for name, page := range b.pages {
		all = append(all, entry{path: manDir + "man1/" + name + ".gz", data: compressed(page)})
	}
	for from, to := range fromSources {
		data, err := os.ReadFile(filepath.Join(r.root, from))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{path: to, data: data, conf: strings.HasPrefix(to, "etc/")})
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	all = append(all, entry{path: docDir + "changelog.gz", data: compressed(changes)})
	docs, err := documents(r.root)
	if err != nil {
		return nil, err
	}
	all = append(all, docs...)
	for i := range all {
		if all[i].mode == 0 {
			all[i].mode = 0o644
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// documents returns the documents of the checkout.
func documents(root string) ([]entry, error) {
	var all []entry
	dir := os.DirFS(root)
	err := fs.WalkDir(dir, "docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		all = append(all, entry{path: docDir + name, data: data})
		return err
	})
	return all, err
}

// debianChangelog is the log of the package.
func debianChangelog(r *release) string {
	return fmt.Sprintf("lwio (%s) unstable; urgency=medium\n\n  * The package of this version; changelog.gz has the changes.\n\n -- %s  %s\n",
		r.version, r.maintainer, r.date.Format(time.RFC1123Z))
}

// compressed returns data as a gzip file, which has no time and no name.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = z.Write(data) // a bytes.Buffer takes all
	_ = z.Close()
	return b.Bytes()
}
