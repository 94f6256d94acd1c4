package spec

import (
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
