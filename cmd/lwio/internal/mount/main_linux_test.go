package mount

import (
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }
