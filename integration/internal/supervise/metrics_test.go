package supervise

import (
	"maps"
	"strings"
	"testing"
)

// A scrape has the value of each metric by its name with labels, and a line without a value is an error.
func TestParseMetrics(t *testing.T) {
	got, err := parse(strings.NewReader("# HELP a b\n# TYPE a gauge\na 1\nb{c=\"d e\",f=\"\"} 2.5e+06\n\n"))
	if want := (Metrics{"a": 1, `b{c="d e",f=""}`: 2.5e6}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"a\n", "a b\n"} {
		if got, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
