package nbd

import (
	"fmt"
	"os"
	"testing"

	"lwio/integration/internal/supervise"
)

// lwioBin is the command, built once for all tests.
var lwioBin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lwio-nbd-")
	if err == nil {
		defer os.RemoveAll(dir)
		lwioBin, err = supervise.Build("../..", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
