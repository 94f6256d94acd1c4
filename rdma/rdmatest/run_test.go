package rdmatest

import (
	"slices"
	"strings"
	"testing"

	"lwio/rdma"
)

// outcome runs one made-up case like Run.
func outcome(t *testing.T, cfg Config, c Case) *recorder {
	return record(t, func(tb testing.TB) { runDeclared(tb, cfg, c) })
}

func TestGapsMustBeDeclaredAndFail(t *testing.T) {
	pass := Case{Name: "it", run: func(*rig) {}}
	fail := Case{Name: "it", run: func(r *rig) { r.Fatal("no") }}
	skip := Case{Name: "it", run: func(r *rig) { r.Skip("cannot") }}
	lack := Case{Name: "it", Needs: 1 << 31, run: func(r *rig) { r.Fatal("runs without its capability") }}
	for _, c := range []struct {
		name            string
		run             Case
		gap             bool
		failed, skipped bool
	}{
		{"pass", pass, false, false, false},
		{"fail", fail, false, true, false},
		{"undeclared skip", skip, false, true, true},
		{"undeclared lack", lack, false, true, true},
		{"gap that fails", fail, true, false, true},
		{"gap that is skipped", skip, true, false, true},
		{"gap for a capability", lack, true, false, true},
		{"gap that passes", pass, true, true, false},
	} {
		cfg := onIWARP()
		if c.gap {
			cfg.Gaps = map[string]string{"it": "for a reason"}
		}
		got := outcome(t, cfg, c.run)
		if got.Failed() != c.failed || got.Skipped() != c.skipped {
			t.Errorf("%s: failed %v, skipped %v: %q", c.name, got.failed, got.skipped, got.log)
		}
	}
}

func TestUnknownGapIsReported(t *testing.T) {
	cfg := onIWARP()
	cfg.Gaps = map[string]string{"cq/resize": "a case", "no/case": "none"}
	if got := unknownGaps(cfg); !slices.Equal(got, []string{"no/case"}) {
		t.Errorf("unknown gaps: %q", got)
	}
}

// A case that leaves objects behind fails. A case whose provider hangs fails too.
func TestLeakAndHangFailACase(t *testing.T) {
	cfg := onIWARP()
	cfg.patience, cfg.leakPatience = impatience, impatience
	stop := make(chan struct{})
	leak := outcome(t, cfg, Case{Name: "it", run: func(*rig) { go func() { <-stop }() }})
	close(stop)
	if !leak.Failed() || !strings.Contains(strings.Join(leak.log, ""), "goroutine") {
		t.Errorf("a leak gives %q", leak.log)
	}
	release := make(chan struct{})
	hang := outcome(t, cfg, Case{Name: "it", run: func(r *rig) {
		r.closeLater("a hanging object", closer(func() error { <-release; return nil }))
	}})
	close(release)
	if !hang.Failed() || !strings.Contains(strings.Join(hang.log, ""), "does not return") {
		t.Errorf("a Close that hangs gives %q", hang.log)
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// Every case has a unique name and names its source.
func TestCasesAreNamed(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] || strings.Count(c.Name, "/") != 1 || !strings.HasPrefix(c.Source, "[") || c.run == nil {
			t.Errorf("case %+v", c)
		}
		seen[c.Name] = true
	}
}

func TestAsleepReadsGoroutineState(t *testing.T) {
	for state, want := range map[string]bool{
		"goroutine 7 [select]:\nf()": true, "goroutine 7 [select, 2 minutes]:\nf()": true, "goroutine 7 [running]:\nf()": false,
		"goroutine 7 [sync.Mutex.Lock]:\nf()": false, "goroutine 7 [chan receive]:": true, "": false,
	} {
		if asleep(state) != want {
			t.Errorf("%q: asleep is %v", state, !want)
		}
	}
}

var _ rdma.Provider = brokenProvider{}
