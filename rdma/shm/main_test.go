//go:build linux

package shm

import (
	"os"
	"testing"

	"lwio/internal/test/leakcheck"
)

// childVariable makes the test binary play a peer of the cross-process tests.
const childVariable = "SHM_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(playChild(role))
	}
	leakcheck.Main(m)
}
