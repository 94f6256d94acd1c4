package main

import "testing"

const source = `// Package a is an example.
package a

import "fmt"

/* A comment
of two lines. */
type T struct {
	A, B int // two fields
	fmt.Stringer
}

// M is a method.
func (t *T) M() string {
	return ` + "`two\nlines`" + `
}

func (t *T) m() {}

func F() {}

const C, d = 1, 2
`

func TestAddMeasuresCodeAndObjects(t *testing.T) {
	m := newMeasures()
	if err := m.add("p/a.go", []byte(source)); err != nil {
		t.Fatal(err)
	}
	if err := m.add("p/a_test.go", []byte("package a\n\n// only a comment\nvar x int\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := *m.packages["p"], (size{files: 1, code: 13, testFiles: 1, testCode: 2, exported: 4}); got != want {
		t.Errorf("size %+v, want %+v", got, want)
	}
	o := m.objects["p.T"]
	if o == nil || o.fields != 3 || len(o.methods) != 2 || len(o.files) != 1 {
		t.Errorf("object %+v, want 3 fields, 2 methods, 1 file", o)
	}
}

func TestPublicLeavesOutInternalAndCommands(t *testing.T) {
	for dir, want := range map[string]bool{".": true, "rdma/iwarp": true, "rdma/internal/softrdma": false, "cmd/lwio": false} {
		if got := public(dir); got != want {
			t.Errorf("public(%q) = %v, want %v", dir, got, want)
		}
	}
}
