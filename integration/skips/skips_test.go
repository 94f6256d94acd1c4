package skips

import (
	"errors"
	"testing"
)

// TestRefused shows that only CI refuses, and only what is not in the table.
func TestRefused(t *testing.T) {
	why := errors.New("no such program")
	table := map[string]string{"TestKnown": "cannot be had there"}
	for _, c := range []struct {
		name   string
		ci, ok bool
	}{
		{"TestKnown", false, true}, {"TestKnown", true, true},
		{"TestOther", false, true}, {"TestOther", true, false}, {"TestKnown/part", true, false},
	} {
		if err := refused(c.name, why, c.ci, table); (err == nil) != c.ok || err != nil && !errors.Is(err, why) {
			t.Errorf("%s, CI %v: %v", c.name, c.ci, err)
		}
	}
}
