package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// document is a text, other than the text of LWIO, that tags name: an RFC, a Microsoft
// specification, or the notes on a text without numbers. Its sections are listed in
// testdata/sections, a line each: a number or "Appendix X", and the title; "- name" is a
// name in the last section.
type document struct {
	name string
	// sections has the tags that exist, without the name of the document, and whether parts of
	// the section are listed.
	sections map[string]bool
	order    []string // of the sections, without names
	partial  bool     // only the first levels are listed
}

var sectionLine = regexp.MustCompile(`^(\d+(?:\.\d+)*|Appendix [A-Z]) \S`)

// documents reads the lists.
func documents(t *testing.T) []document {
	t.Helper()
	files, err := filepath.Glob("testdata/sections/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []document
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		d := document{name: name, sections: make(map[string]bool), partial: strings.HasPrefix(name, "MS-")}
		for line := range strings.Lines(string(text)) {
			if err := d.add(strings.TrimSpace(line)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		all = append(all, d)
	}
	return all
}

// add adds a line of a list.
func (d *document) add(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	if item, ok := strings.CutPrefix(line, "- "); ok {
		if len(d.order) == 0 {
			return fmt.Errorf("%q stands in no section", item)
		}
		d.sections[d.order[len(d.order)-1]+" "+item] = false
		if d.name == "ND" {
			d.sections[item] = false
		}
		return nil
	}
	m := sectionLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%q is no section", line)
	}
	id := d.id(m[1])
	if _, twice := d.sections[id]; twice {
		return fmt.Errorf("%q is listed twice", line)
	}
	d.sections[id] = false
	d.order = append(d.order, id)
	if at := strings.LastIndexByte(m[1], '.'); at >= 0 {
		above := d.id(m[1][:at])
		if _, ok := d.sections[above]; !ok {
			return fmt.Errorf("%q has no section above it", line)
		}
		d.sections[above] = true
	}
	return nil
}

// id is the spelling of a section in tags.
func (d *document) id(number string) string {
	if d.partial || strings.HasPrefix(number, "Appendix") {
		return number
	}
	return "§" + number
}

// rules are the numbers of rules within a section, as the RFCs number them.
var rules = regexp.MustCompile(` rules? \d+( (to|and) \d+)?$`)

// has reports whether the section of a tag exists. "" is the document as a whole.
func (d *document) has(section string) bool {
	if section == "" && !strings.HasPrefix(d.name, "ND") {
		return true
	}
	if _, ok := d.sections[section]; ok {
		return true
	}
	if strings.HasPrefix(d.name, "RFC") && rules.MatchString(section) {
		return d.has(rules.ReplaceAllString(section, ""))
	}
	if !d.partial {
		return false
	}
	for {
		at := strings.LastIndexByte(section, '.')
		if at < 0 {
			return false
		}
		section = section[:at]
		if parts, ok := d.sections[section]; ok {
			return !parts
		}
	}
}

// find returns the document of a tag and the rest of the tag.
func find(docs []document, tag string) (d *document, section string) {
	for i := range docs {
		if rest, ok := strings.CutPrefix(tag, docs[i].name); ok && (rest == "" || rest[0] == ' ') {
			return &docs[i], strings.TrimPrefix(rest, " ")
		}
	}
	return nil, ""
}

// Every tag of a text other than LWIO's names a section of the lists.
func TestForeignTagsExist(t *testing.T) {
	docs := documents(t)
	n := 0
	for _, tag := range repositoryTags(t) {
		if !tag.foreign() {
			continue
		}
		n++
		if d, section := find(docs, tag.text); d == nil || !d.has(section) {
			t.Errorf("%v does not exist", tag)
		}
	}
	if n < 500 {
		t.Errorf("only %d tags: the search is broken", n)
	}
}

// The sections of the transports' texts without code or without a test are printed.
func TestSectionsWithoutCodeOrTestArePrinted(t *testing.T) {
	docs := documents(t)
	has := make(map[string]bool)
	for _, tag := range repositoryTags(t) {
		if d, section := find(docs, tag.text); d != nil {
			section = rules.ReplaceAllString(section, "")
			if d.name == "ND" || d.name == "WSD" { // a name stands for its section
				section = d.sectionOf(section)
			}
			has[d.name+" "+section+" "+map[bool]string{false: "code", true: "test"}[tag.kind() == codecTest || tag.kind() == engineTest]] = true
		}
	}
	for _, d := range docs {
		if d.partial {
			continue
		}
		for _, lacks := range []string{"code", "test"} {
			missing := slices.DeleteFunc(slices.Clone(d.order), func(s string) bool { return has[d.name+" "+s+" "+lacks] })
			t.Logf("%s: %d of %d sections without %s: %s", d.name, len(missing), len(d.order), lacks, strings.Join(missing, ", "))
		}
	}
}

// sectionOf is the section of a name, or the section itself.
func (d *document) sectionOf(section string) string {
	if number, _, ok := strings.Cut(section, " "); ok && strings.HasPrefix(number, "§") {
		return number
	}
	for _, s := range d.order {
		if _, ok := d.sections[s+" "+section]; ok {
			return s
		}
	}
	return section
}

// The lists tell existing sections from others.
func TestSectionListsNameExistingSections(t *testing.T) {
	docs := documents(t)
	for tag, want := range map[string]bool{
		"RFC 5044": true, "RFC 5044 §7.1.2": true, "RFC 5044 §7.1.2 rule 4": true, "RFC 5044 §7.1.2 rules 3 to 7": true,
		"RFC 5044 §7.1.6": false, "RFC 5044 7.1.2": false, "RFC 5044 §7.1.2 something": false, "RFC 5044 Appendix A": true,
		"RFC 5045": false, "RFC 5042 §6.4.3.1": true, "RFC 5042 §6.4.3.4": false,
		"WSD §5.3": true, "WSD §5.7": false, "WSD §2.1 WSPBind": true, "WSD §2.1 WSPShutdown": false,
		"ND": false, "ND §6.4": true, "ND §6.11": false, "ND Connector.Accept": true, "ND Connector.Close": false,
		"ND NdOverWrite": true, "ND §9 NdOverWrite": true, "ND §8 NdOverWrite": false, "ND §8 row 13": true, "ND §8 row 14": false,
		"MS-SMB2 2.2.32.3": true, "MS-SMB2 2.2.45": false, "MS-SMB2 3.3.5.14.2": true, "MS-SMB2 3.3.5.23": false,
		"MS-SMB2 7": false, "MS-FSCC 2.4.27": true, "MS-FSCC 2.8": false,
	} {
		d, section := find(docs, tag)
		if got := d != nil && d.has(section); got != want {
			t.Errorf("[%s] exists: %v", tag, got)
		}
	}
}
