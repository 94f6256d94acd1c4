package spec

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rule is a rule of the protocol that a peer can break, in the words of docs/protocol.md, and the
// tests in which a hostile peer does: "package.Test", or "package.Test/case" where the test has
// several.
type rule struct{ says, cases string }

// TestRulesHaveCases: every rule of the tables is one of docs/protocol.md, and every
// case exists.
func TestRulesHaveCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := plain(string(text))
	cases := make(map[string]bool)
	for name, dir := range map[string]string{"lwio": "", "fileio": "internal/client/fileio", "rdmaconn": "internal/client/rdmaconn", "server": "server", "wire": "internal/wire", "association": "server/internal/association"} {
		casesOf(t, name, filepath.Join("..", "..", dir), cases)
	}
	if len(cases) < 1000 {
		t.Fatalf("only %d names of tests and cases: the search is broken", len(cases))
	}
	for _, table := range [][]rule{rulesOfClients, rulesOfServers} {
		for _, r := range table {
			if !strings.Contains(document, plain(r.says)) {
				t.Errorf("docs/protocol.md does not say %q", r.says)
			}
			for name := range strings.SplitSeq(plain(r.cases), "; ") {
				if !cases[name] {
					t.Errorf("%q: there is no case %s", r.says, name)
				}
			}
		}
	}
}

// TestHostileCasesHaveRules: every case of the tables of hostile peers breaks a rule
// that is listed.
func TestHostileCasesHaveRules(t *testing.T) {
	var listed strings.Builder
	for _, r := range append(append([]rule(nil), rulesOfClients...), rulesOfServers...) {
		listed.WriteString("; " + plain(r.cases))
	}
	all := listed.String() + ";"
	for _, test := range []string{
		"server.TestViolationsEndConnection", "server.TestDefectiveAuthIsRefused", "server.TestUnexpectedCreditEndsConnection",
		"fileio.TestClientRefusesWrongAuthAnswer", "fileio.TestHostileAnswerEndsConnection", "fileio.TestHostileStatusBlocks", "fileio.TestNegotiateRefusals",
	} {
		pkg, name, _ := strings.Cut(test, ".")
		rows := 0
		for row := range rowsOf(t, pkg, name) {
			rows++
			if !strings.Contains(all, "; "+test+"/"+row+";") {
				t.Errorf("%s/%s breaks no rule of the tables", test, row)
			}
		}
		if rows < 5 {
			t.Errorf("%s has %d rows: the search is broken", test, rows)
		}
	}
}

var (
	markup = regexp.MustCompile("[`*]")
	space  = regexp.MustCompile(`\s+`)
)

// plain is text without markup, with single spaces.
func plain(s string) string {
	return strings.TrimSpace(space.ReplaceAllString(markup.ReplaceAllString(s, ""), " "))
}

// testFiles parses the tests of a directory.
func testFiles(t *testing.T, dir string) (all []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d tests, %v", dir, len(names), err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file)
	}
	return all
}

// testName returns the name of the test whose body a function is, "" for other functions:
// testX is the body of TestX.
func testName(d ast.Decl) (name string, f *ast.FuncDecl) {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv != nil || !strings.HasPrefix(strings.ToLower(f.Name.Name), "test") {
		return "", nil
	}
	return "T" + f.Name.Name[1:], f
}

// casesOf records the tests of a package, and each test with every string in it: one of the
// strings is the name of a case.
func casesOf(t *testing.T, pkg, dir string, cases map[string]bool) {
	t.Helper()
	for _, file := range testFiles(t, dir) {
		for _, d := range file.Decls {
			name, f := testName(d)
			if f == nil {
				continue
			}
			cases[pkg+"."+name] = true
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := stringOf(n); ok {
					cases[fmt.Sprintf("%s.%s/%s", pkg, name, s)] = true
				}
				return true
			})
		}
	}
}

// rowsOf finds the names of the rows of a test's table: the keys of a map, or the first value of
// each row of a list.
func rowsOf(t *testing.T, pkg, test string) map[string]bool {
	t.Helper()
	rows := make(map[string]bool)
	dir := filepath.Join("..", "..", map[string]string{"server": "server", "fileio": "internal/client/fileio"}[pkg])
	for _, file := range testFiles(t, dir) {
		for _, d := range file.Decls {
			name, f := testName(d)
			if f == nil || name != test {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if loop, ok := n.(*ast.RangeStmt); ok {
					if table, ok := loop.X.(*ast.CompositeLit); ok {
						rowsOfTable(table, rows)
					}
				}
				return true
			})
		}
	}
	return rows
}

func rowsOfTable(table *ast.CompositeLit, rows map[string]bool) {
	for _, row := range table.Elts {
		var first ast.Node = row
		switch x := row.(type) {
		case *ast.KeyValueExpr:
			first = x.Key
		case *ast.CompositeLit:
			if len(x.Elts) > 0 {
				first = x.Elts[0]
			}
		}
		if s, ok := stringOf(first); ok {
			rows[s] = true
		}
	}
}

func stringOf(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
