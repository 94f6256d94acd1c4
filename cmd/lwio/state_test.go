package main

import (
	"strings"
	"testing"
)

// A state needs users that outlive the server.
func TestStateNeedsPasswordFile(t *testing.T) {
	r := run(t, exitUsage, "serve", "--state", t.TempDir(), t.TempDir())
	if !strings.Contains(r.err, "--password-file") {
		t.Errorf("the error is %q", r.err)
	}
}
