package survive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio"
)

// TestStaleFileSaysWhy kills the server, and changes the names of open files before the next one starts. The calls of
// each file fail with an error that says what has happened to it, and write to no other file.
func TestStaleFileSaysWhy(t *testing.T) {
	const elsewhere, others = "elsewhere", "other"
	cases := map[string]struct {
		change func(name string) error
		says   string
	}{
		"removed":  {os.Remove, "it was removed or renamed meanwhile"},
		"renamed":  {func(name string) error { return os.Rename(name, filepath.Join(filepath.Dir(name), elsewhere)) }, "it was removed or renamed meanwhile"},
		"replaced": {func(name string) error { return errors.Join(os.Remove(name), os.WriteFile(name, []byte(others), 0o600)) }, "another file has its name now"},
		"a directory": {func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
			"another file has its name now"},
	}
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, stateFlags(t, true)...)
			open := make(map[string]*visitor)
			for name := range cases {
				open[name] = visit(t, s, transport, name)
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			for name, c := range cases {
				if err := c.change(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			for name, c := range cases {
				for call, err := range map[string]error{"uses": open[name].uses(9), "sync": open[name].f.Sync(t.Context()), "close": open[name].f.Close()} {
					if !errors.Is(err, lwio.ErrStale) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s of a file that is %s: %v", call, name, err)
					}
				}
			}
			for name, want := range map[string]string{elsewhere: "\x01", "replaced": others} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s has %q, %v", name, got, err)
				}
			}
		})
	}
}
