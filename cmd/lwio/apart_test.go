package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The files of the server are in no directory that it serves: its clients could read the hashes of all users there,
// and change the state.
func TestServeRefusesOwnFilesInShares(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // links need a privilege there
	}
	dir := t.TempDir()
	share, apart, below := filepath.Join(dir, "share"), filepath.Join(dir, "apart"), filepath.Join(dir, "share", "a", "b")
	for _, d := range []string{below, apart} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	outside := writeSecret(t, "alice:secret\n", apart, "users")
	inside := writeSecret(t, "alice:secret\n", below, "users")
	links := map[string]string{
		filepath.Join(apart, "in"):    inside,  // a link to a file of the share
		filepath.Join(below, "out"):   outside, // a link that clients can replace
		filepath.Join(apart, "dirin"): below,
	}
	for link, target := range links {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for name, flags := range map[string][]string{
		"password-file":        {"--password-file", inside},
		"link into the share":  {"--password-file", filepath.Join(apart, "in")},
		"link in the share":    {"--password-file", filepath.Join(below, "out")},
		"through a link":       {"--password-file", filepath.Join(apart, "dirin", "users")},
		"state":                {"--password-file", outside, "--state", filepath.Join(below, "new", "state")},
		"state below the root": {"--password-file", outside, "--state", filepath.Join(share, "state")},
		"audit":                {"--password-file", outside, "--audit", filepath.Join(apart, "dirin", "audit")},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, exitUsage, append(append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...), "docs="+share)...)
			if !strings.Contains(r.err, "in the share docs") {
				t.Errorf("message %q", r.err)
			}
		})
	}
	for _, name := range []string{"new", "audit"} {
		if _, err := os.Lstat(filepath.Join(below, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}
