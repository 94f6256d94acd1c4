package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestCheckReportsEachRule(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text string
		want       []string // rule and word of each finding
	}{
		"pronoun in a doc comment":   {"a.go", "package a\n\n// f waits for whoever calls.\nfunc f() {}\n", []string{"pronoun whoever"}},
		"pronoun beside a statement": {"a.go", "package a\n\nvar x = 1 // what is left\n", []string{"pronoun what"}},
		"retired term in a comment":  {"a.go", "package a\n\n// The baton moves on.\n", []string{"retired baton"}},
		"retired term in a name":     {"a.go", "package a\n\nvar spareRails int\n", []string{"retired name spareRails"}},
		"name of one word":           {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestEnough(t *testing.T) {}\n", []string{"test name TestEnough"}},
		"pronoun in a test name":     {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestCancelWhenNobodyWaits(t *testing.T) {}\n", []string{"pronoun TestCancelWhenNobodyWaits"}},
		"pronoun in a fuzz target":   {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc FuzzWhatever(f *testing.F) {}\n", []string{"pronoun FuzzWhatever"}},
		"pronoun inside of a word":   {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestWholeHeaderIsRead(t *testing.T) {}\n", nil},
		"message":                    {"a.go", "package a\n\nvar m = \"nobody answers\"\n", []string{"pronoun nobody"}},
		"quotation and tag":          {"a.go", "package a\n\n// The log says \"who\". Source: [LWIO §What]\n", nil},
		"string of one word":         {"a.go", "package a\n\nvar m = \"who\"\n", nil},
		"claim":                      {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestClaim5(t *testing.T) {}\n", nil},
		"phrase beside a field":      {"a.go", "package a\n\ntype t struct {\n\tn int // that of the peer\n}\n", []string{"sentence that of"}},
		"sentence begins with what":  {"a.go", "package a\n\n// x is 1. What remains is 2.\nvar x = 1\n", []string{"pronoun What"}},
		"turn in a doc comment":      {"a.go", "package a\n\n// The limit is that\n// of the server.\nvar x = 1\n", []string{"sentence is that of"}},
		"turn in the plural":         {"a.go", "package a\n\n// The limits were those of it.\nvar x = 1\n", []string{"sentence were those of"}},
		"turn on the same":           {"docs/a.md", "The rate is the same of both.\n", []string{"sentence is the same of"}},
		"turn after a colon":         {"a.go", "package a\n\n// Errors: those of x; that\n// of y.\nvar x = 1\n", []string{"sentence : those of", "sentence ; that of"}},
		"sentence repeats another":   {"a.go", "package a\n\n// A call fails. So it is with a batch.\n// Nor does a read go on. The call is over, nor is it repeated.\nvar x = 1\n", []string{"sentence So it is with", "sentence Nor does"}},
		"subject is a pronoun":       {"a.go", "package a\n\n// It is that of a call.\n// Those that wait sleep. The same of a read. One that\n// waits sleeps. That of x.\nvar x = 1\n", []string{"sentence is that of", "sentence It is that of", "sentence Those", "sentence The same of", "sentence One that", "sentence That of"}},
		"item of a list":             {"docs/a.md", "The calls:\n- Those of a file.\n1. Those of a tree.\n", []string{"sentence Those", "sentence Those"}},
		"cell of a table":            {"docs/a.md", "| call | Those of a file |\n", []string{"sentence Those"}},
		"that as a conjunction":      {"a.go", "package a\n\n// f reports that of ten calls one waits. Each that of x.\nfunc f() {}\n", nil},
		"phrase in quotes":           {"a.go", "package a\n\n// The log says \"Those of\". Source: [LWIO §Those]\nvar x = 1\n", nil},
		"document":                   {"docs/a.md", "Somebody reads.\n```\nwho\n```\nRun `who`.\n", []string{"pronoun Somebody"}},
		"script":                     {".ci/run", "# somebody\nwho\n", []string{"pronoun somebody"}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := check(tc.file, kindOf(tc.file), []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				got = append(got, f.rule+" "+f.word)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("findings %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCheckReportsTheLine(t *testing.T) {
	findings, err := check("a.go", goSource, []byte("package a\n\n// f is\n// what is left.\nfunc f() {}\n"))
	if err != nil || len(findings) != 1 || !strings.HasPrefix(findings[0].String(), "a.go:4: ") {
		t.Fatalf("findings %v, %v; want one in line 4", findings, err)
	}
}

func TestSplitIdentifierFindsWords(t *testing.T) {
	for name, want := range map[string][]string{
		"stallLimit2": {"stall", "limit"},
		"RDMAPath":    {"rdma", "path"},
		"snake_case":  {"snake", "case"},
		"x":           {"x"},
		"ID":          {"id"},
	} {
		if got := splitIdentifier(name); !reflect.DeepEqual(got, want) {
			t.Errorf("splitIdentifier(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestCheckReportsTheLineOfASentence(t *testing.T) {
	findings, err := check("a.go", goSource, []byte("package a\n\n// f is short.\n//\n// It works.\n// Those of it\n// sleep.\nfunc f() {}\n"))
	if err != nil || len(findings) != 1 || findings[0].line != 6 {
		t.Fatalf("findings %v, %v; want one in line 6", findings, err)
	}
}
