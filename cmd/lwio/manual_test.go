package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each command has a manual page with its flags, which mandoc accepts where it is installed.
func TestManualHasEveryCommand(t *testing.T) {
	dir := t.TempDir()
	run(t, exitOK, "manual", "--date", "2026-01-02", dir)
	names := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		names++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Fatal(err)
		}
		page := string(text)
		if !strings.Contains(page, "2026-01-02") || !strings.Contains(page, ".SH SYNOPSIS\n\\fB"+strings.ReplaceAll(c.CommandPath(), "-", `\-`)) {
			t.Errorf("the page of %s begins with %.200q", c.CommandPath(), page)
		}
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, `\fB\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)+`\fR`) {
				t.Errorf("the page of %s has no --%s", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				visit(sub)
			}
		}
	}
	visit((&app{}).root())
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != names || names < 20 {
		t.Errorf("%d pages for %d commands, %v", len(pages), names, err)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		return // the rest needs mandoc
	}
	if out, err := exec.Command(mandoc, append([]string{"-Tlint", "-Wstyle"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
}

func TestManualRefusesADate(t *testing.T) {
	run(t, exitUsage, "manual", "--date", "today", t.TempDir())
}
