package main

import (
	"errors"
	"strings"
	"testing"
)

const list = `// A comment.

# limit not checked
server/a.go ./server ./vfs
-if n > limit {
+if false {

# flag dropped
server/b.go -run=TestFlags|TestOptions time-limit
-	f |= flag
`

func TestParseReadsFaults(t *testing.T) {
	all, err := parse(list)
	if err != nil || len(all) != 2 {
		t.Fatalf("parse: %v, %v; want two faults", all, err)
	}
	if f := all[0]; f.name != "limit not checked" || f.file != "server/a.go" || f.mayHang || strings.Join(f.args(), " ") != "./server ./vfs" {
		t.Errorf("first fault: %+v", f)
	}
	if f := all[1]; f.new != "" || !f.mayHang || strings.Join(f.args(), " ") != "./server -run=TestFlags|TestOptions" {
		t.Errorf("second fault: %+v", f)
	}
}

// Tests of the module integration run in its directory.
func TestTestsRunInTheirModule(t *testing.T) {
	for pkg, want := range map[string][2]string{
		"./server": {".", "./server -run=X"}, "./integration/survive": {integration, "./survive -run=X"},
	} {
		f := fault{packages: []string{pkg}, flags: []string{"-run=X"}}
		if got := [2]string{f.module(), strings.Join(f.args(), " ")}; got != want {
			t.Errorf("%s: %q", pkg, got)
		}
	}
}

func TestParseRefusesWrongLists(t *testing.T) {
	for _, text := range []string{
		"server/a.go\n-x\n",
		"# a\nserver/a.go\n+x\n",
		"# a\nserver/a.go\n-x\n+x\n",
		"# a\nserver/a.go\n-x\n# a\nserver/a.go\n-y\n",
		"# a\nserver/a.go\nserver/b.go\n-x\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("parse(%q) has no error", text)
		}
	}
}

func TestApplyReplacesTheOnePlace(t *testing.T) {
	f := fault{file: "a.go", old: "if n > limit {\n", new: "if false {\n"}
	got, err := f.apply("a\n\tif n > limit {\nb\n")
	if err != nil || got != "a\nif false {\nb\n" {
		t.Errorf("apply = %q, %v", got, err)
	}
	if _, err := f.apply("a\nb\n"); !errors.Is(err, errNotFound) {
		t.Errorf("apply without the place: %v", err)
	}
	if _, err := f.apply("if n > limit {\nif n > limit {\n"); !errors.Is(err, errAmbiguous) {
		t.Errorf("apply with two places: %v", err)
	}
}
