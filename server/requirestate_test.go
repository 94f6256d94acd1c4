package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/statefile"
	"lwio/vfs"
)

// A broken state is no end of the service, unless the configuration requires the state: then a server that can
// use it may go on.
func TestRequiredStateMustNotBeBroken(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	log, err := statefile.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(state, "log.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("damaged!"), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, required := range []bool{true, false} {
		fsys, err := vfs.New(vfs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{FS: fsys, StateDir: state, RequireState: required})
		var damage *statefile.CorruptError
		if required != errors.As(err, &damage) || required == (err == nil) {
			t.Errorf("required %t: %v", required, err)
		}
		if err == nil {
			if !s.Stats().StateFailing {
				t.Error("the state does not count as failing")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := fsys.Close(); err != nil {
			t.Error(err)
		}
	}
}
