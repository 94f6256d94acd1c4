package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"
)

// imageUser is the number of the user of the container, and of its group.
const imageUser = 65532

// Media types of the parts of an image.
//
// Source: OCI image format specification, version 1.1
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a part of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// imageManifest names the configuration and the layers of an image.
type imageManifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// imageIndex names the manifests of a layout.
type imageIndex struct {
	SchemaVersion int          `json:"schemaVersion"`
	Manifests     []descriptor `json:"manifests"`
}

// imageConfig is the configuration of an image.
type imageConfig struct {
	Created      time.Time    `json:"created"`
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Config       imageProcess `json:"config"`
	RootFS       imageRootFS  `json:"rootfs"`
}

// imageProcess is the process that a container runs.
type imageProcess struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
}

// imageRootFS lists the digests of the layers before their compression.
type imageRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// imageFiles are the files of the image: the program, its user, its licenses, and directories for it. There is no
// shell and no C library.
func imageFiles(b *built) []entry {
	own := func(path string, mode fs.FileMode) entry {
		return entry{path: path, mode: fs.ModeDir | mode, owner: imageUser}
	}
	return []entry{
		{path: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nlwio:x:%d:\n", imageUser)},
		{path: "etc/lwio", mode: fs.ModeDir | 0o755},
		{path: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/none\nlwio:x:%d:%d:lwio:/var/lib/lwio:/none\n", imageUser, imageUser)},
		own("run/lwio", 0o700),
		own("srv/data", 0o755),
		{path: "usr/bin/lwio", mode: 0o755, data: b.program},
		{path: docDir + "copyright", mode: 0o644, data: b.copyright},
		own("var/lib/lwio", 0o700),
	}
}

// imageOf returns an image of one layer, as a tar archive in the layout of OCI.
func imageOf(r *release, b *built) ([]byte, error) {
	layer, err := tarOf(imageFiles(b), "", r.date)
	if err != nil {
		return nil, err
	}
	config := imageConfig{
		Created: r.date, Architecture: r.arch, OS: "linux",
		Config: imageProcess{
			User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
			ExposedPorts: map[string]struct{}{"4450/tcp": {}, "5445/tcp": {}, "9450/tcp": {}},
			Entrypoint:   []string{"/usr/bin/lwio"},
			Cmd:          []string{"serve", "--config", "/etc/lwio/server.toml"},
			Labels:       map[string]string{"org.opencontainers.image.title": "lwio", "org.opencontainers.image.version": r.version},
			StopSignal:   "SIGTERM",
		},
		RootFS: imageRootFS{Type: "layers", DiffIDs: []string{digest(layer)}},
	}
	var l layout
	manifest := imageManifest{SchemaVersion: 2, MediaType: typeManifest}
	if manifest.Config, err = l.addJSON(typeConfig, config); err != nil {
		return nil, err
	}
	manifest.Layers = []descriptor{l.add(typeLayer, compressed(layer))}
	top, err := l.addJSON(typeManifest, manifest)
	if err != nil {
		return nil, err
	}
	top.Annotations = map[string]string{"io.containerd.image.name": "localhost/lwio:latest", "org.opencontainers.image.ref.name": "latest"}
	index, err := json.Marshal(imageIndex{SchemaVersion: 2, Manifests: []descriptor{top}})
	if err != nil {
		return nil, err
	}
	files := append(l.blobs,
		entry{path: "index.json", mode: 0o644, data: index},
		entry{path: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	return tarOf(files, "", r.date)
}

// layout has the parts of an image as files.
type layout struct{ blobs []entry }

// add adds a part and returns its name.
func (l *layout) add(mediaType string, data []byte) descriptor {
	l.blobs = append(l.blobs, entry{path: fmt.Sprintf("blobs/sha256/%x", sha256.Sum256(data)), mode: 0o644, data: data})
	return descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
}

// addJSON is add for a value in JSON.
func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, b.Bytes()), nil
}

// digest is the name of data in an image.
func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
