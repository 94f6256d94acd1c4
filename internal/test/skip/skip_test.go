package skip

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Only an entry of the same package and reason accepts a skip, and only under its condition.
func TestTableAcceptsByPackageAndReason(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	table := []entry{{pkg: "p", reason: "always"}, {pkg: "p", reason: "now", when: yes}, {pkg: "p", reason: "never", when: no}}
	for reason, want := range map[string]bool{"always": true, "now": true, "never": false, "other": false} {
		if got := accepts(table, "p", reason); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	if accepts(table, "p/q", "always") {
		t.Error("an entry of another package accepts")
	}
}

// A host has the right to mount and the IPv6 loopback only if the system shows them.
func TestConditionsReadTheHost(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapEff:\t0000000000200000\nCapBnd:\t0\n":                true,
		"Name:\tx\nCapEff:\t00000000ffdfffff\nCapBnd:\t0000000000200000\n": false,
		"Name:\tx\n": false, "": false,
	} {
		if got := hasCapability(status, capSysAdmin); got != want {
			t.Errorf("%q: %t", status, got)
		}
	}
	four, six := &net.IPNet{IP: net.IPv4(127, 0, 0, 1)}, &net.IPNet{IP: net.IPv6loopback}
	if hasIPv6Loopback([]net.Addr{four}) || !hasIPv6Loopback([]net.Addr{four, six}) {
		t.Error("the IPv6 loopback")
	}
}

func TestPackageOfAFunctionName(t *testing.T) {
	for function, want := range map[string]string{
		"lwio.TestX": "lwio", "lwio_test.TestX.func1": "lwio", "lwio/rdma/shm.(*T).x": "lwio/rdma/shm", "example.com/a/b_test.F": "example.com/a/b",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%s: %s, want %s", function, got, want)
		}
	}
	if got := func() string { return caller() }(); got != "lwio/internal/test/skip" {
		t.Errorf("the caller is %s", got)
	}
}

// fake is a test that records how it ended.
type fake struct {
	testing.TB
	ended string
}

func (*fake) Helper()                 {}
func (*fake) Name() string            { return "TestFake" }
func (f *fake) Skip(...any)           { f.ended += "skipped" }
func (f *fake) Fatalf(string, ...any) { f.ended += "failed " }

// Continuous integration fails a skip that the table does not have, and each skip is logged.
func TestUnknownSkipFailsInCI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	t.Setenv(log, file)
	for ci, want := range map[string]string{"": "skipped", "true": "failed skipped"} {
		t.Setenv("CI", ci)
		f := new(fake)
		Test(f, "no such entry", 1, "detail")
		if f.ended != want {
			t.Errorf("CI=%s: %s", ci, f.ended)
		}
	}
	line := "lwio/internal/test/skip TestFake: no such entry: 1 detail\n"
	if b, err := os.ReadFile(file); err != nil || string(b) != line+line {
		t.Errorf("%q, %v", b, err)
	}
}

// mechanisms are the files that skip by themselves: this package, and the conformance suite,
// which has a table of gaps for each provider.
var mechanisms = []string{
	"internal/test/skip/skip.go", "rdma/rdmatest/run.go", "rdma/rdmatest/run_test.go", "rdma/rdmatest/case_message.go",
}

// Tests of all modules skip only by this package, each skip has a constant reason, and each
// entry of the table has a skip.
func TestEverySkipIsByThisPackage(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	skips := make(map[[2]string]bool)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != root) {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || slices.Contains(mechanisms, filepath.ToSlash(rel)) {
			return err
		}
		scan(t, name, path.Join("lwio", path.Dir(filepath.ToSlash(rel))), skips)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range table {
		if !skips[[2]string{e.pkg, e.reason}] {
			t.Errorf("no test of %s skips by %q", e.pkg, e.reason)
		}
		if e.because == "" {
			t.Errorf("%s, %s: accepted without a reason", e.pkg, e.reason)
		}
	}
}

// scan records the skips of a file, and reports the skips that do not use this package.
func scan(t *testing.T, name, pkg string, skips map[[2]string]bool) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	models := make(map[token.Pos]token.Pos) // the bodies of functions with a *rapid.T, which skips an action
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if drawsActions(n.Type) {
				models[n.Pos()] = n.End()
			}
		case *ast.FuncLit:
			if drawsActions(n.Type) {
				models[n.Pos()] = n.End()
			}
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch id, _ := s.X.(*ast.Ident); {
			case id != nil && id.Name == "skip" && s.Sel.Name == "Test":
				reason, ok := constant(n.Args)
				if !ok {
					t.Errorf("%s: the reason of a skip is no constant", files.Position(n.Pos()))
				}
				skips[[2]string{pkg, reason}] = true
			case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) && id != nil && !within(models, n.Pos()):
				t.Errorf("%s: a skip that is not by package skip", files.Position(n.Pos()))
			}
		}
		return true
	})
}

// drawsActions reports whether a function has a parameter of type *rapid.T.
func drawsActions(f *ast.FuncType) bool {
	for _, p := range f.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if s, ok := star.X.(*ast.SelectorExpr); ok {
				if id, ok := s.X.(*ast.Ident); ok && id.Name == "rapid" && s.Sel.Name == "T" {
					return true
				}
			}
		}
	}
	return false
}

// within reports whether a position is in one of the ranges.
func within(ranges map[token.Pos]token.Pos, at token.Pos) bool {
	for begin, end := range ranges {
		if begin <= at && at < end {
			return true
		}
	}
	return false
}

// constant is the reason among the arguments of Test, a string literal.
func constant(args []ast.Expr) (string, bool) {
	if len(args) < 2 {
		return "", false
	}
	lit, ok := args[1].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
