package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"sort"
	"strings"
)

// size is the size of one package.
type size struct {
	files, code         int
	testFiles, testCode int
	exported            int // top-level identifiers, and methods of exported types
}

// object is a struct type with its methods. Embedded fields count as one.
type object struct {
	name    string
	fields  int
	methods map[string]bool // variants for other systems count once
	files   map[string]bool // with methods of the object
}

type measures struct {
	packages       map[string]*size
	objects        map[string]*object
	functions      int
	largeFunctions []string
	largeFiles     []string
}

func newMeasures() *measures {
	return &measures{packages: map[string]*size{}, objects: map[string]*object{}}
}

// add measures one file.
func (m *measures) add(name string, text []byte) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
	s := m.packages[dir]
	if s == nil {
		s = &size{}
		m.packages[dir] = s
	}
	code := codeLines(text)
	if test {
		s.testFiles++
		s.testCode += code
		return nil
	}
	s.files++
	s.code += code
	if n := files.Position(f.FileEnd).Line - 1; n > guideFile {
		m.largeFiles = append(m.largeFiles, fmt.Sprintf("%s: %d", name, n))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			m.function(files, dir, name, d)
			if exported(d) {
				s.exported++
			}
		case *ast.GenDecl:
			s.exported += m.general(dir, d)
		}
	}
	return nil
}

// codeLines counts the lines that hold a token that is no comment.
func codeLines(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			lines[first+i] = true
		}
	}
}

func (m *measures) function(files *token.FileSet, dir, name string, d *ast.FuncDecl) {
	m.functions++
	first, last := files.Position(d.Pos()).Line, files.Position(d.End()).Line
	if n := last - first + 1; n > guideFunction {
		m.largeFunctions = append(m.largeFunctions, fmt.Sprintf("%s:%d %s: %d", name, first, d.Name.Name, n))
	}
	if r := receiver(d); r != "" {
		o := m.object(dir, r)
		o.methods[d.Name.Name] = true
		o.files[name] = true
	}
}

// general counts the exported identifiers of a declaration and notes its struct types.
func (m *measures) general(dir string, d *ast.GenDecl) int {
	n := 0
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				n++
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				m.object(dir, spec.Name.Name).fields = max(m.object(dir, spec.Name.Name).fields, fieldCount(st))
			}
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				if id.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

func fieldCount(st *ast.StructType) int {
	n := 0
	for _, f := range st.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

func (m *measures) object(dir, name string) *object {
	key := dir + "." + name
	o := m.objects[key]
	if o == nil {
		o = &object{name: key, methods: map[string]bool{}, files: map[string]bool{}}
		m.objects[key] = o
	}
	return o
}

// largeObjects returns the objects above the guide, largest first.
func (m *measures) largeObjects() []*object {
	var large []*object
	for _, o := range m.objects {
		if o.fields > guideFields || len(o.methods) > guideMethods {
			large = append(large, o)
		}
	}
	sort.Slice(large, func(i, j int) bool {
		a, b := large[i], large[j]
		if n, k := a.fields+len(a.methods), b.fields+len(b.methods); n != k {
			return n > k
		}
		return a.name < b.name
	})
	return large
}

func exported(d *ast.FuncDecl) bool {
	r := receiver(d)
	return d.Name.IsExported() && (r == "" || ast.IsExported(r))
}

// receiver returns the name of the type that a method belongs to, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
