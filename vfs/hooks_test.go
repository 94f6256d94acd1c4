package vfs

import "testing"

func TestHooksRunOnceInOrder(t *testing.T) {
	var h hooks
	ran := ""
	add := func(name string) func() { return h.add(func() { ran += name }) }
	add("a")
	stop := add("b")
	add("c")
	stop()
	stop()
	h.run()
	h.run()
	if ran != "ac" {
		t.Errorf("ran %q", ran)
	}
	add("d")()
	if ran != "acd" {
		t.Errorf("a hook that is added later: ran %q", ran)
	}
}
