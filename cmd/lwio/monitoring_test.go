package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lwio"
)

// exposed are the names of the metrics of a scrape, with their labels and the values of these.
type exposed map[string]map[string][]string

var (
	sampleLine  = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? \S+$`)
	labelValue  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	selector    = regexp.MustCompile(`(?:^|[^:a-z_])((?:lwio|process)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher     = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)\\?"([^"\\]*)\\?"`)
	grouping    = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	ofScrape    = []string{"instance", "job"} // labels that Prometheus adds
	anyValue    = []string{"share", "user", "client", "connection", "provider", "le"}
	recordLines = regexp.MustCompile(`(?m)^ *- record: .*$`)
)

// exposedBy parses a scrape.
func exposedBy(text string) exposed {
	e := make(exposed)
	for _, line := range sampleLine.FindAllStringSubmatch(text, -1) {
		if e[line[1]] == nil {
			e[line[1]] = make(map[string][]string)
		}
		for _, l := range labelValue.FindAllStringSubmatch(line[2], -1) {
			e[line[1]][l[1]] = append(e[line[1]][l[1]], l[2])
		}
	}
	return e
}

// mistakes returns the metrics, labels and values of labels in a text with queries that do not exist.
func (e exposed) mistakes(text string) (all []string) {
	names := slices.Clone(ofScrape)
	for _, labels := range e {
		for name := range labels {
			names = append(names, name)
		}
	}
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		labels, ok := e[m[1]]
		if !ok {
			all = append(all, "metric "+m[1])
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if slices.Contains(ofScrape, l[1]) {
				continue
			}
			if values, ok := labels[l[1]]; !ok {
				all = append(all, fmt.Sprintf("label %s of %s", l[1], m[1]))
			} else if !slices.Contains(anyValue, l[1]) && !slices.ContainsFunc(values, regexp.MustCompile("^(?:"+l[3]+")$").MatchString) {
				all = append(all, fmt.Sprintf("value %s=%q of %s", l[1], l[3], m[1]))
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(g[1], ",") {
			if name = strings.TrimSpace(name); !slices.Contains(names, name) {
				all = append(all, "label "+name)
			}
		}
	}
	return all
}

// The rules of Prometheus and the board of Grafana have metrics, labels and values that the server exposes.
func TestRulesAndBoardHaveMetricsThatExist(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	write(t, []byte("content"), s.dir, "f")
	c, err := lwio.Dial(t.Context(), s.url, &lwio.Config{RequireRDMA: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 7), 0); err != nil {
		t.Fatal(err)
	}
	e := exposedBy(scrape(t, s))
	for _, name := range []string{"prometheus/lwio.rules.yml", "grafana/lwio.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "packaging", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		queries := recordLines.ReplaceAllString(string(text), "")
		if n := len(selector.FindAllString(queries, -1)); n < 20 {
			t.Errorf("%s has %d selectors", name, n)
		}
		for _, m := range e.mistakes(queries) {
			t.Errorf("%s: there is no %s", name, m)
		}
	}
	for query, want := range map[string]string{
		`rate(lwio_byte_total[5m])`:                           "metric lwio_byte_total",
		`sum(lwio_connections{sort="smb"})`:                   "label sort of lwio_connections",
		`lwio_connections{kind="smb",instance="x"}`:           "",
		`lwio_connections{kind=\"tape\"}`:                     `value kind="tape" of lwio_connections`,
		`lwio_charged{resource=~".*_bytes"}`:                  "",
		`lwio_charged{resource!~"locks|.*_memory"}`:           "",
		`sum by (instance, shares) (lwio_operations_total)`:   "label shares",
		`lwio_operations_total{op=~"read|vectored_read"} > 1`: "",
	} {
		if got := strings.Join(e.mistakes(query), ", "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
