package rdmatest

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
)

// Config names the provider under test. Run does not change it.
type Config struct {
	// New returns the provider for one case. It releases other resources with t.Cleanup.
	New func(t testing.TB) rdma.Provider
	// Addr is the address that cases listen at. With port 0, or without a name, the
	// provider picks one. Adapters are opened at its IP address. Two adapters at this
	// address must be able to reach each other.
	Addr rdma.Addr
	// Gaps has the cases that the provider does not pass, with the reasons.
	Gaps map[string]string

	// For tests of the suite: how long an operation may take, and how long resources may remain after a case.
	patience, leakPatience time.Duration
}

// Case describes one case of the suite.
type Case struct {
	// Name is the name of the subtest, Source its origin.
	Name, Source string
	// Needs has the required capabilities. Without them the case is skipped.
	Needs rdma.Caps

	run func(*rig)
}

// Cases lists the suite, in the order in which it runs.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		adapterCases, memoryCases, connectCases, rejectCases, listenCases, cancelCases, closeCases,
		messageCases, queueCases, notifyCases, completionCases, endCases,
		writeCases, readCases, windowCases, sharedCases, immediateCases, atomicCases, fileCases,
		violationCases, trimIdleCases, flowCases, depthCases, randomCases,
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every case as a subtest of t, one after another.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	for _, name := range unknownGaps(cfg) {
		t.Errorf("the gap %q names no case", name)
	}
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { runDeclared(t, cfg, c) })
	}
}

// Random runs the case that compares random operations with a model. -rapid.checks and
// -rapid.steps set its length: a million operations are -rapid.checks=1000
// -rapid.steps=1000.
func Random(t *testing.T, cfg Config) {
	t.Helper()
	for _, c := range randomCases {
		t.Run(c.Name, func(t *testing.T) { runDeclared(t, cfg, c) })
	}
}

// unknownGaps lists the gaps that name no case.
func unknownGaps(cfg Config) []string {
	gaps := maps.Clone(cfg.Gaps)
	for _, c := range Cases() {
		delete(gaps, c.Name)
	}
	return slices.Sorted(maps.Keys(gaps))
}

// runDeclared runs a case. It must pass, or fail if it is declared as a gap.
func runDeclared(tb testing.TB, cfg Config, c Case) {
	reason, gap := cfg.Gaps[c.Name]
	if !gap {
		tb.Cleanup(func() {
			if tb.Skipped() && !tb.Failed() {
				tb.Error("skipped, and not declared as a gap")
			}
		})
		runCase(tb, cfg, c)
		return
	}
	if rec := record(tb, func(tb testing.TB) { runCase(tb, cfg, c) }); !rec.Failed() && !rec.Skipped() {
		tb.Fatalf("passes, but is declared as a gap: %s", reason)
	}
	tb.Skipf("gap: %s", reason)
}

// runCase runs one case and checks for leaks.
func runCase(tb testing.TB, cfg Config, c Case) {
	leakcheck.CheckWithin(tb, cmp.Or(cfg.leakPatience, leakcheck.Patience))
	r := &rig{TB: tb, cfg: cfg, provider: cfg.New(tb)}
	if c.Needs != 0 && !r.adapter().Info().Caps.Has(c.Needs) {
		tb.Skipf("the adapter lacks capabilities %#x", uint32(c.Needs))
	}
	c.run(r)
}
