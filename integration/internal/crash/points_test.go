package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each point, and each changed line, is at one line of the source.
func TestPointsAreInTheSource(t *testing.T) {
	places := []Line{SmallLog}
	names := make(map[string]bool)
	for _, list := range [][]Point{Serving, Starting, Making} {
		for _, p := range list {
			if names[p.Name] {
				t.Errorf("two points are %q", p.Name)
			}
			names[p.Name] = true
			places = append(places, Line{File: p.File, Old: p.Line})
		}
	}
	for _, l := range places {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", l.File))
		if err != nil {
			t.Error(err)
		} else if n := strings.Count(string(text), l.Old); n != 1 {
			t.Errorf("%s has %q %d times", l.File, l.Old, n)
		}
	}
}
