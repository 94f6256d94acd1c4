package verbs

import (
	"testing"

	"lwio/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }
