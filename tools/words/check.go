package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// finding is one place that breaks a rule.
type finding struct {
	file string
	line int
	rule string // the rule, as "pronoun" or "retired"
	word string
	hint string
}

func (f finding) String() string {
	s := fmt.Sprintf("%s:%d: %s: %q", f.file, f.line, f.rule, f.word)
	if f.hint != "" {
		s += ": use " + f.hint
	}
	return s
}

// kind is how a file is read.
type kind int

const (
	ignored  kind = iota
	goSource      // comments, identifiers, string literals
	document      // every line of prose
	script        // lines that begin with #
)

// kindOf returns how the tracked file with the given name is checked. Test data and the
// record of changes, which names retired terms, are not checked; neither is this command.
func kindOf(name string) kind {
	switch {
	case strings.HasPrefix(name, "tools/words/"), strings.Contains(name, "testdata/"), name == "CHANGELOG.md":
		return ignored
	case strings.HasSuffix(name, ".go"):
		return goSource
	case strings.HasSuffix(name, ".md"):
		return document
	case strings.HasPrefix(name, ".ci/"), name == ".golangci.yml", strings.HasPrefix(name, "integration/guest/") && path.Ext(name) == "":
		return script
	}
	return ignored
}

// check returns the findings of one file.
func check(name string, k kind, text []byte) ([]finding, error) {
	c := &checker{file: name}
	switch k {
	case goSource:
		if err := c.source(text); err != nil {
			return nil, err
		}
	case document:
		c.document(string(text))
	case script:
		for i, line := range strings.Split(string(text), "\n") {
			if at := strings.Index(line, "#"); at >= 0 && strings.TrimSpace(line[:at]) == "" {
				c.prose(line[at:], i+1)
			}
		}
	case ignored:
	}
	return c.findings, nil
}

type checker struct {
	file     string
	findings []finding
}

func (c *checker) add(line int, rule, word, hint string) {
	c.findings = append(c.findings, finding{c.file, line, rule, word, hint})
}

// source checks the comments, the declared identifiers and the string literals of a file.
func (c *checker) source(text []byte) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, c.file, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		var lines []string
		first := files.Position(group.Pos()).Line
		for _, comment := range group.List {
			text := strings.TrimPrefix(strings.TrimPrefix(comment.Text, "//"), "/*")
			if strings.HasPrefix(text, "go:") || strings.HasPrefix(text, "nolint") {
				text = ""
			}
			lines = append(lines, strings.Split(text, "\n")...)
		}
		for i, line := range lines {
			c.prose(line, first+i)
		}
		c.sentences(lines, first)
	}
	imports := map[*ast.BasicLit]bool{}
	for _, spec := range f.Imports {
		imports[spec.Path] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			c.identifier(n.Name, files.Position(n.Pos()).Line)
		case *ast.BasicLit:
			if n.Kind == token.STRING && !imports[n] {
				c.literal(n, files.Position(n.Pos()).Line)
			}
		case *ast.FuncDecl:
			c.testName(n, files.Position(n.Pos()).Line)
		}
		return true
	})
	return nil
}

// literal checks a string of more than one word: shorter ones are data.
func (c *checker) literal(lit *ast.BasicLit, line int) {
	s, err := strconv.Unquote(lit.Value)
	if err != nil || !strings.Contains(strings.TrimSpace(s), " ") {
		return
	}
	c.prose(s, line)
}

var singleWord = regexp.MustCompile(`^Test[A-Z][a-z0-9]*$`)
var claimTest = regexp.MustCompile(`^TestClaims?[0-9]+$`)

var testPrefix = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz|Example)[A-Z]`)

// testName checks that the name of a test says more than one word and has no pronoun.
func (c *checker) testName(f *ast.FuncDecl, line int) {
	name := f.Name.Name
	if f.Recv != nil || !strings.HasSuffix(c.file, "_test.go") || !testPrefix.MatchString(name) {
		return
	}
	for _, word := range splitIdentifier(name) {
		if pronouns[word] {
			c.add(line, "pronoun", name, "the thing itself")
		}
	}
	if !singleWord.MatchString(name) || wordTestNames[name] || claimTest.MatchString(name) {
		return
	}
	c.add(line, "test name", name, "a name that says the behaviour")
}

var fence = regexp.MustCompile("^\\s*```")

// document checks prose outside of blocks of code.
func (c *checker) document(text string) {
	inside := false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fence.MatchString(line) {
			inside = !inside
			line = ""
		}
		if inside || strings.HasPrefix(line, "    ") {
			line = ""
		}
		lines[i] = line
		c.prose(line, i+1)
	}
	c.sentences(lines, 1)
}

var tag = regexp.MustCompile(`\[[^\]]*\]`)
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
var wordPattern = regexp.MustCompile(`[A-Za-z]+`)

// prose checks the words of a text. Tags in brackets and quotations are left out.
func (c *checker) prose(text string, line int) {
	text = quoted.ReplaceAllString(tag.ReplaceAllString(text, " "), " ")
	for _, word := range wordPattern.FindAllString(text, -1) {
		lower := strings.ToLower(word)
		if pronouns[lower] {
			c.add(line, "pronoun", word, "the thing itself")
		}
		if hint, ok := retired[lower]; ok {
			c.add(line, "retired", word, hint)
		}
	}
}

// identifier checks the words of a name in camel case or with underscores.
func (c *checker) identifier(name string, line int) {
	for _, word := range splitIdentifier(name) {
		if hint, ok := retired[word]; ok {
			c.add(line, "retired name", name, hint)
		}
		if hint, ok := retiredIdentifiers[word]; ok {
			c.add(line, "retired name", name, hint)
		}
	}
}

// splitIdentifier returns the words of a name in lower case: "stallLimit2" has "stall",
// "limit"; "RDMAPath" has "rdma", "path".
func splitIdentifier(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r):
			afterLower := i > 0 && unicode.IsLower(runes[i-1])
			beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if afterLower || beforeLower && len(word) > 0 {
				end()
			}
		}
		word = append(word, r)
	}
	end()
	return words
}
