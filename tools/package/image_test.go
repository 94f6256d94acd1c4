package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// unpack returns the headers and the files of a tar archive by their names.
func unpack(t *testing.T, r io.Reader) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, files := map[string]*tar.Header{}, map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return headers, files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if headers[h.Name], files[h.Name] = h, data; h.Typeflag == tar.TypeReg && len(data) == 0 {
			t.Errorf("%s is empty", h.Name)
		}
	}
}

// blob returns a part of a layout. Its size and digest must be as in its descriptor.
func blob(t *testing.T, files map[string][]byte, d descriptor) []byte {
	t.Helper()
	data := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Fatalf("%+v is a part of %d bytes with the digest %s", d, len(data), digest(data))
	}
	return data
}

// decode decodes JSON.
func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// An image leads from its index to a layer with the program, which runs as a user without rights.
func TestImageLeadsToTheProgram(t *testing.T) {
	r := &release{arch: "arm64", version: "1-1", date: testDate}
	image, err := imageOf(r, &built{program: []byte("program"), copyright: []byte("licenses")})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := imageOf(r, &built{program: []byte("program"), copyright: []byte("licenses")}); err != nil || !bytes.Equal(image, again) {
		t.Errorf("two images of the same files differ: %v", err)
	}
	_, files := unpack(t, bytes.NewReader(image))
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %q", files["oci-layout"])
	}
	index := decode[imageIndex](t, files["index.json"])
	if len(index.Manifests) != 1 {
		t.Fatalf("%+v", index)
	}
	manifest := decode[imageManifest](t, blob(t, files, index.Manifests[0]))
	config := decode[imageConfig](t, blob(t, files, manifest.Config))
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		t.Fatalf("%+v %+v", manifest, config)
	}
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/usr/bin/lwio" {
		t.Errorf("%+v", config)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(t, files, manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil || digest(layer) != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer has the digest %s, %v", digest(layer), err)
	}
	headers, content := unpack(t, bytes.NewReader(layer))
	if h := headers["usr/bin/lwio"]; h == nil || h.Mode != 0o755 || string(content["usr/bin/lwio"]) != "program" {
		t.Errorf("the program is %+v", h)
	}
	if h := headers["var/lib/lwio/"]; h == nil || h.Typeflag != tar.TypeDir || h.Uid != imageUser || h.Mode != 0o700 {
		t.Errorf("the directory of the user is %+v", h)
	}
	if h := headers["usr/"]; h == nil || h.Uid != 0 {
		t.Errorf("/usr is %+v", h)
	}
}
