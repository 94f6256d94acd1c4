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
		"message":                    {"a.go", "package a\n\nvar m = \"nobody answers\"\n", []string{"pronoun nobody"}},
		"quotation and tag":          {"a.go", "package a\n\n// The log says \"who\". Source: [LWIO §What]\n", nil},
		"string of one word":         {"a.go", "package a\n\nvar m = \"who\"\n", nil},
		"claim":                      {"a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestClaim5(t *testing.T) {}\n", nil},
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
