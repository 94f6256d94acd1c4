package stream

import (
	"fmt"
	"os"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(benchPeer); name != "" {
		if err := servePeer(name); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leakcheck.Main(m)
}
