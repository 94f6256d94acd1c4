package lwio_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"lwio"
)

// The comment of an alias lists the exported fields and methods of the type: their declarations
// are in internal packages, which the documentation does not show.
func TestCommentsOfAliasesListAllMembers(t *testing.T) {
	ofErrors := []string{"Error", "Is", "Temporary", "Timeout", "Unwrap"} // the comment names net.Error instead
	for _, alias := range []struct {
		file, name string
		typ        reflect.Type
		unlisted   []string
	}{
		{"batch.go", "Completion", reflect.TypeFor[lwio.Completion](), nil},
		{"errors.go", "Error", reflect.TypeFor[lwio.Error](), ofErrors},
		{"fileinfo.go", "Space", reflect.TypeFor[lwio.Space](), nil},
		{"stats.go", "Histogram", reflect.TypeFor[lwio.Histogram](), nil},
	} {
		t.Run(alias.name, func(t *testing.T) {
			var want []string
			for f := range alias.typ.Fields() {
				if f.IsExported() {
					want = append(want, f.Name)
				}
			}
			for m := range reflect.PointerTo(alias.typ).Methods() {
				if !slices.Contains(alias.unlisted, m.Name) {
					want = append(want, m.Name)
				}
			}
			var got []string
			for _, m := range listedMember.FindAllStringSubmatch(commentOf(t, alias.file, alias.name), -1) {
				got = append(got, m[1])
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the comment lists %q, the type has %q", got, want)
			}
		})
	}
}

// listedMember matches the name at the beginning of an item of a list.
var listedMember = regexp.MustCompile(`(?m)^ +- ([A-Z]\w*)`)

// commentOf returns the doc comment of a type in a file of this package.
func commentOf(t *testing.T, file, name string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == name {
			return g.Doc.Text()
		}
	}
	t.Fatalf("%s has no type %s", file, name)
	return ""
}
