package main

import (
	"path/filepath"
	"strings"
	"testing"

	"lwio/lwiotest"
)

// The example keeps notes in a file of a share and in a local file.
func TestNotesAreKept(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	for _, database := range []string{s.URL() + "/notes.db", filepath.Join(t.TempDir(), "notes.db"), filepath.Join(s.Dir, "notes.db")} {
		var out strings.Builder
		for _, args := range [][]string{{"add", "one"}, {"add", "two"}, {"list"}} {
			if err := run(t.Context(), append([]string{database}, args...), &out); err != nil {
				t.Fatal(err)
			}
		}
		if want := "1 one\n2 two\n"; !strings.HasPrefix(out.String(), want) {
			t.Errorf("printed %q", out.String())
		}
	}
	for _, args := range [][]string{nil, {"x.db"}, {s.URL() + "/notes.db", "remove"}} {
		if run(t.Context(), args, nil) == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
