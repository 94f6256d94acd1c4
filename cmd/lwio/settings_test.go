package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lwio/cmd/lwio/internal/config"
)

// flagsWithoutKey are the flags of serve that a configuration file does not have.
var flagsWithoutKey = map[string]string{
	"config":        "names the file",
	"help":          "is no setting",
	"user":          "the file names a file of users instead",
	"password-file": "the file names a file of users instead",
}

// serveFlags returns the flags of serve.
func serveFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	root := new(app).root()
	cmd, _, err := root.Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.InitDefaultHelpFlag()
	all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	for _, f := range []func() *pflag.FlagSet{cmd.LocalFlags, cmd.InheritedFlags} {
		all.AddFlagSet(f())
	}
	return all
}

// Each flag of serve is a key of the configuration file, and each key is a flag.
func TestConfigurationFileHasTheFlagsOfServe(t *testing.T) {
	flags, keys := serveFlags(t), config.Keys()
	flags.VisitAll(func(f *pflag.Flag) {
		if _, without := flagsWithoutKey[f.Name]; without == slices.Contains(keys, f.Name) {
			t.Errorf("--%s: exactly one of config.Flags and flagsWithoutKey must have it", f.Name)
		}
	})
	for _, key := range keys {
		if flags.Lookup(key) == nil {
			t.Errorf("the key %q is no flag of serve", key)
		}
	}
	for name := range flagsWithoutKey {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}

// A configuration file sets the flags that the command line does not have.
func TestConfigurationFileSetsFlags(t *testing.T) {
	const share = "users = \"users\"\n[[share]]\nname = \"data\"\npath = \".\"\nread = [\"*\"]\n"
	name := filepath.Join(t.TempDir(), "lwio.toml")
	settings := "listen = \"127.0.0.1:1\"\nprovider = [\"iwarp\"]\ndurable-timeout = \"90s\"\nkeep-alive = \"0s\"\norphans = 7\nsmb-memory = \"100m\"\n" +
		"read-only = true\nallow-uid = [\"12\", \"13\"]\n"
	if err := os.WriteFile(name, []byte(settings+share), 0o600); err != nil {
		t.Fatal(err)
	}
	a := new(app)
	var o serveOptions
	cmd, _, err := a.root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	got := func(args ...string) string {
		t.Helper()
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		o.config = name
		if err := o.readConfig(cmd); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, flag := range []string{"listen", "provider", "durable-timeout", "keep-alive", "orphans", "smb-memory", "read-only", "allow-uid"} {
			list = append(list, valueOf(cmd, flag))
		}
		return strings.Join(list, " ")
	}
	if text, want := got(), "127.0.0.1:1 iwarp 1m30s 0s 7 100m true 12,13"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if text, want := got("--durable-timeout", "1s", "--provider=shm", "--orphans=8"), "127.0.0.1:1 shm 1s 0s 8 100m true 12,13"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// valueOf returns the text of a flag.
func valueOf(cmd *cobra.Command, flag string) string { return cmd.Flags().Lookup(flag).Value.String() }

// A value that no flag takes is an error which names file and key.
func TestConfigurationFileWithInvalidFlag(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lwio.toml")
	const text = "users = \"users\"\nallow-uid = [\"x\"]\n[[share]]\nname = \"data\"\npath = \".\"\nread = [\"*\"]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, exitFailure, "serve", "--config", name); !strings.Contains(r.err, name) || !strings.Contains(r.err, "allow-uid") {
		t.Errorf("%q", r.err)
	}
}
