package spec

import (
	"fmt"
	"slices"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// strict makes gaps that gaps_test.go does not declare, and declared gaps that are
// filled, failures rather than lines of the log.
const strict = true

// Every tag names something that exists.
func TestTagsExist(t *testing.T) {
	k := known()
	tags := repositoryTags(t)
	if len(tags) < 100 {
		t.Errorf("only %d tags: the search is broken", len(tags))
	}
	for _, tag := range tags {
		if !tag.foreign() && !k[tag.text] {
			t.Errorf("%v does not exist", tag)
		}
	}
}

// Every section and every claim has code and a test outside the codec.
func TestSectionsAndClaimsAreCovered(t *testing.T) {
	count := make(map[string]*[kinds]int)
	for _, tag := range repositoryTags(t) {
		if count[tag.text] == nil {
			count[tag.text] = new([kinds]int)
		}
		count[tag.text][tag.kind()]++
	}
	report := t.Logf
	if strict {
		report = t.Errorf
	}
	t.Logf("%-36s %6s %6s %6s %6s", "", "codec", "test", "engine", "test")
	undeclared := 0
	for _, item := range items() {
		n := count[item.tag]
		if n == nil {
			n = new([kinds]int)
		}
		t.Logf("%-36s %6d %6d %6d %6d", item.tag, n[codec], n[codecTest], n[engine], n[engineTest])
		for _, missing := range []struct {
			what string
			k    kind
		}{{"code", engine}, {"test", engineTest}} {
			g := gap{item.tag, missing.what}
			reason, declared := gaps[g]
			switch {
			case n[missing.k] == 0 && !declared:
				undeclared++
				report("[%s] (%s) has no %s", item.tag, item.about, missing.what)
			case n[missing.k] == 0:
				t.Logf("[%s] has no %s: %s", item.tag, missing.what, reason)
			case declared:
				report("[%s] has %s: remove it from the table of gaps", item.tag, missing.what)
			}
		}
	}
	t.Logf("%d undeclared gaps", undeclared)
}

// Every decision has code and a test, the codec's or others.
func TestDecisionsAreCovered(t *testing.T) {
	has := make(map[gap]bool)
	for _, tag := range repositoryTags(t) {
		lacks := "code"
		if k := tag.kind(); k == codecTest || k == engineTest {
			lacks = "test"
		}
		has[gap{tag.text, lacks}] = true
	}
	for _, d := range Decisions() {
		for _, what := range []string{"code", "test"} {
			g := gap{"OP-" + d, what}
			reason, declared := gaps[g]
			switch {
			case !has[g] && !declared:
				t.Errorf("[%s] has no %s", g.tag, what)
			case !has[g]:
				t.Logf("[%s] has no %s: %s", g.tag, what, reason)
			case declared:
				t.Errorf("[%s] has %s: remove it from the table of gaps", g.tag, what)
			}
		}
	}
}

// item is a section or a claim, which needs code and a test.
type item struct{ tag, about string }

func items() []item {
	var all []item
	for _, s := range Sections() {
		all = append(all, item{"LWIO §" + s, "section"})
	}
	for _, c := range Claims() {
		all = append(all, item{fmt.Sprint("LWIO claim ", c.Number), c.About})
	}
	return all
}

// The table of gaps names existing items only, and gives reasons.
func TestGapsTableNamesExistingItems(t *testing.T) {
	tags := items()
	for _, d := range Decisions() {
		tags = append(tags, item{"OP-" + d, ""})
	}
	for g, reason := range gaps {
		exists := slices.ContainsFunc(tags, func(i item) bool { return i.tag == g.tag })
		if !exists || g.lacks != "code" && g.lacks != "test" || reason == "" {
			t.Errorf("%+v: %q", g, reason)
		}
	}
}

func TestListsAreComplete(t *testing.T) {
	if n := len(Sections()); n != 13 {
		t.Errorf("%d sections", n)
	}
	claims := Claims()
	if len(claims) != 24 || claims[0].Number != 1 || claims[23].Number != 24 {
		t.Errorf("%d claims", len(claims))
	}
	all := Decisions()
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(all) {
		t.Error("a decision is listed twice")
	}
	for id, want := range map[string]bool{
		"1": true, "49": true, "50": false, "50a": true, "50j": true, "50k": false, "58b": true, "61c": true,
		"74": false, "74c": true, "92i": true, "92j": false, "93f": true, "94g": true, "94h": false,
		"111b": true, "115": true, "116": true, "117": false, "118": true, "119": false, "0": false, "5c": true, "5b": false,
	} {
		if slices.Contains(all, id) != want {
			t.Errorf("%s is listed: %v", id, !want)
		}
	}
}

// The search finds tags in all kinds of comments, and misspelt ones.
func TestTagsOfFindsAllKindsOfComments(t *testing.T) {
	src := `package x // [OP-1]

// Source: [LWIO §Vectored
// Read], [LWIO claim 3] and [OP-46b] to [OP-47]
var a = "[OP-5]" /* [LWIO §Raed]
[LWIO Claim 2] */ // [OP-46b,47]

// [RFC 5044 §4.2] [OPTION 7] [ND §x] [] [OP]
func (
`
	var got []string
	for _, tag := range tagsOf("x.go", []byte(src)) {
		got = append(got, tag.String())
	}
	want := []string{
		"x.go:1: [OP-1]", "x.go:3: [LWIO §Vectored Read]", "x.go:3: [LWIO claim 3]",
		"x.go:3: [OP-46b]", "x.go:3: [OP-47]", "x.go:3: [LWIO §Raed]", "x.go:3: [LWIO Claim 2]",
		"x.go:6: [OP-46b,47]", "x.go:8: [RFC 5044 §4.2]", "x.go:8: [ND §x]", "x.go:8: [OP]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	k := known()
	bad := 0
	for _, tag := range tagsOf("x.go", []byte(src)) {
		if !tag.foreign() && !k[tag.text] {
			bad++
		}
	}
	if bad != 4 {
		t.Errorf("%d tags are misspelt", bad)
	}
}

// The kind of a source file follows from its path.
func TestKindOfFile(t *testing.T) {
	for file, want := range map[string]kind{
		"internal/wire/read.go": codec, "internal/wire/read_test.go": codecTest,
		"server/read.go": engine, "server/read_test.go": engineTest,
		"integration/samba/run.go": engineTest, "client.go": engine,
	} {
		if got := (tag{file: file}).kind(); got != want {
			t.Errorf("%s is %d instead of %d", file, got, want)
		}
	}
}
