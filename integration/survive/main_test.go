package survive

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"lwio/integration/internal/sandbox"
	"lwio/integration/internal/supervise"
)

// kills is the number of kills, or cuts, of each test, all cases of the test together.
var kills = flag.Int("kills", 25, "kills of a server, or cuts of connections, in each test")

// lwioBin is the command, built once for all tests.
var lwioBin string

// TestMain runs the tests in namespaces of their own, which end with the mounts and networks of the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(sandbox.Run(func() int { return run(m) }))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lwio-survive-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if lwioBin, err = supervise.Build("../..", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
