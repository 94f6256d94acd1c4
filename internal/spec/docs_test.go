package spec

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every decision is restated for readers, once, and no other is.
func TestDecisionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, decisions, found := strings.Cut(string(text), "\n## Decisions\n")
	if !found {
		t.Fatal("docs/protocol.md has no decisions")
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+[a-z]?) \|`).FindAllStringSubmatch(decisions, -1) {
		listed = append(listed, m[1])
	}
	want := Decisions()
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("documented %q\nexist %q", listed, want)
	}
}

// Each test that a document names exists.
func TestDocumentedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	exist := make(map[string]bool)
	definition := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range definition.FindAllSubmatch(text, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1) {
			if !exist[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}
