package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// packaging returns the path of a file of the directory packaging.
func packaging(elem ...string) string {
	return filepath.Join(append([]string{"..", "..", "packaging"}, elem...)...)
}

// rules is a file of rules of Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr string
			For                 time.Duration
			Labels, Annotations map[string]string
		}
	}
}

// The file of rules has the keys that Prometheus knows, and the parser of Prometheus accepts each expression. Each alert has
// a severity, a summary and a description.
func TestPrometheusAcceptsTheRules(t *testing.T) {
	f, err := os.Open(packaging("prometheus", "lwio.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	var r rules
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	alerts, names := 0, make(map[string]bool)
	for _, g := range r.Groups {
		if names[g.Name] {
			t.Errorf("two groups are %q", g.Name)
		}
		names[g.Name] = true
		for _, rule := range g.Rules {
			if _, err := parser.ParseExpr(rule.Expr); err != nil {
				t.Errorf("%s%s: %v", rule.Record, rule.Alert, err)
			}
			switch {
			case (rule.Record == "") == (rule.Alert == ""):
				t.Errorf("%q is not either an alert or a record", rule.Expr)
			case rule.Alert == "":
				continue
			case rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "":
				t.Errorf("the alert %s has labels %v and annotations %v", rule.Alert, rule.Labels, rule.Annotations)
			}
			alerts++
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts", alerts)
	}
}

// board is the part of a board of Grafana with queries.
type board struct {
	Panels []struct {
		Title   string
		Type    string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name string }
	}
}

// query returns a query of a board as Grafana sends it: with values in place of the variables, which it removes from unused.
func query(expr string, unused map[string]bool) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
	for name := range unused {
		if next := strings.ReplaceAll(expr, "$"+name, "x"); next != expr {
			expr, unused[name] = next, false
		}
	}
	return expr
}

// The parser of Prometheus accepts each query of the board, and each panel has queries.
func TestPrometheusAcceptsTheQueriesOfTheBoard(t *testing.T) {
	text, err := os.ReadFile(packaging("grafana", "lwio.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	unused := make(map[string]bool)
	for _, v := range b.Templating.List {
		unused[v.Name] = v.Name != "datasource"
	}
	queries := 0
	for _, p := range b.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			queries++
			q := query(target.Expr, unused)
			if _, err := parser.ParseExpr(q); err != nil {
				t.Errorf("%q: %s: %v", p.Title, q, err)
			}
			if strings.Contains(q, "$") {
				t.Errorf("%q has a variable that the board does not define: %s", p.Title, q)
			}
		}
	}
	if queries < 20 {
		t.Errorf("%d queries", queries)
	}
	for name, is := range unused {
		if is {
			t.Errorf("no query has the variable $%s", name)
		}
	}
	if _, err := parser.ParseExpr("sum(rate(lwio_bytes_total[5m])"); err == nil {
		t.Error("the parser accepts a query without its last parenthesis")
	}
}
