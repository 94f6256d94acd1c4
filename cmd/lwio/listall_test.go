package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ls -R lists a directory and those below it, in the order of ls(1), small ones and a large one.
func TestListAll(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, name := range []string{"d/b/1", "d/b/c/2", "d/a/3", "d/z", "d/e f/4", "other"} {
		write(t, []byte("12345"), s.dir, name)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "d/none"), 0o700); err != nil {
		t.Fatal(err)
	}
	at, _, _ := strings.Cut(s.url[strings.Index(s.url, "@")+1:], "?")
	at = "lwio://" + at + "/d"
	want := at + ":\na/\nb/\ne f/\nnone/\nz\n\n" + at + "/a:\n3\n\n" + at + "/b:\n1\nc/\n\n" + at + "/b/c:\n2\n\n" + at + "/e f:\n4\n\n" + at + "/none:\n"
	if r := run(t, exitOK, "ls", "-R", s.url+"/d"); r.out != want {
		t.Errorf("ls -R printed %q, want %q", r.out, want)
	}
	if r := run(t, exitOK, "ls", "-lR", s.url+"/d"); strings.Count(r.out, "  5  ") != 5 || strings.Count(r.out, ":\n") != 6 {
		t.Errorf("ls -lR printed %s", r.out)
	}
	if r := run(t, exitOK, "ls", "-R", s.url+"/other"); r.out != "other\n" {
		t.Errorf("ls -R of a file printed %q", r.out)
	}
	run(t, exitFailure, "ls", "-R", s.url+"/missing")
	for name, want := range map[string][]string{
		"/d/b": {"1", "c", "c/2"},
		"":     {"d", "other", "d/a", "d/b", "d/e f", "d/none", "d/z", "d/a/3", "d/b/1", "d/b/c", "d/b/c/2", "d/e f/4"},
	} {
		var list []fileJSON
		r := run(t, exitOK, "ls", "-R", "--json", s.url+name)
		if err := json.Unmarshal([]byte(r.out), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range list {
			got = append(got, f.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ls -R --json of %q: %q, want %q", name, got, want)
		}
	}
}

// A directory that cannot be listed is named, and the others are listed. A link to a directory above it does not begin
// another round.
func TestListAllGoesOnAfterFailures(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, name := range []string{"d/a/1", "d/b/2", "d/c/3"} {
		write(t, nil, s.dir, name)
	}
	if err := os.Symlink("..", filepath.Join(s.dir, "d/b/loop")); err != nil {
		t.Fatal(err)
	}
	refused := os.Geteuid() != 0
	if refused {
		if err := os.Chmod(filepath.Join(s.dir, "d/a"), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(filepath.Join(s.dir, "d/a"), 0o700)
	}
	r := run(t, exitFailure, "ls", "-R", s.url+"/d")
	if !strings.Contains(r.err, "ls d/b/loop: not listed: a link to a directory above it") || refused && !strings.Contains(r.err, "readdir d/a:") {
		t.Errorf("ls -R says %q", r.err)
	}
	for _, want := range []string{"/d:\na/\nb/\nc/\n", "/d/b:\n2\nloop/\n", "/d/c:\n3\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("ls -R printed %q, without %q", r.out, want)
		}
	}
}
