package spec

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tag is a tag of a text or of a decision, and its place.
type tag struct {
	text string // without brackets
	file string // slash-separated, relative to the repository
	line int
}

func (t tag) String() string { return fmt.Sprintf("%s:%d: [%s]", t.file, t.line, t.text) }

// kinds of files: the codec alone implements no section, so that it is counted
// apart from the engines.
type kind int

const (
	codec kind = iota
	codecTest
	engine
	engineTest
	kinds
)

func (t tag) kind() kind {
	k := engine
	if strings.HasPrefix(t.file, "internal/wire/") {
		k = codec
	}
	if strings.HasSuffix(t.file, "_test.go") || strings.HasPrefix(t.file, "integration/") {
		k++
	}
	return k
}

// foreign reports whether the tag names a text other than the text of LWIO.
func (t tag) foreign() bool {
	return !strings.HasPrefix(t.text, "LWIO") && !strings.HasPrefix(t.text, "OP")
}

// bracketed finds anything like a tag, also if it is misspelt.
var bracketed = regexp.MustCompile(`\[((?:LWIO|OP|WSD|RFC|ND|MS-[A-Z0-9]+)\b[^\[\]]*|ND2[^\[\]]*)\]`)

// sourceString is the literal of a list of tags, as the conformance cases have one.
var sourceString = regexp.MustCompile("^[\"`](\\[[^\\[\\]]+\\](, | and | to )?)+[\"`]$")

// lineStart joins the lines of a comment.
var lineStart = regexp.MustCompile(`\s*\n\s*//\s*`)

// tagsOf finds the tags in the comments of a Go file, and the tags of other texts in string
// literals that consist of tags. The file need not compile.
func tagsOf(name string, src []byte) []tag {
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	var all []tag
	var group strings.Builder
	begin, last := 0, -1
	flush := func() {
		text := lineStart.ReplaceAllString(group.String(), " ")
		for _, m := range bracketed.FindAllStringSubmatch(text, -1) {
			all = append(all, tag{m[1], name, begin})
		}
		group.Reset()
	}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			flush()
			return all
		}
		if tok == token.STRING && sourceString.MatchString(lit) {
			for _, m := range bracketed.FindAllStringSubmatch(lit, -1) {
				if found := (tag{m[1], name, file.Line(pos)}); found.foreign() {
					all = append(all, found)
				}
			}
			continue
		}
		if tok != token.COMMENT {
			continue
		}
		line := file.Line(pos)
		if line != last+1 {
			flush()
			begin = line
		}
		group.WriteString(lit + "\n")
		last = line + strings.Count(lit, "\n")
	}
}

// repositoryTags finds the tags of all Go files of the repository, except for the tests of
// this package, which contain examples.
func repositoryTags(t *testing.T) []tag {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	var all []tag
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != root && (strings.HasPrefix(n, ".") && n != ".." || n == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "internal/spec/") {
			return nil
		}
		src, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		all = append(all, tagsOf(name, src)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// known are all tags that exist.
func known() map[string]bool {
	k := make(map[string]bool)
	for _, s := range Sections() {
		k["LWIO §"+s] = true
	}
	for _, c := range Claims() {
		k[fmt.Sprint("LWIO claim ", c.Number)] = true
	}
	for _, d := range Decisions() {
		k["OP-"+d] = true
	}
	return k
}
