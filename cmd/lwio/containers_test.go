package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// commandLine matches the arguments of the server in an example for containers.
var commandLine = regexp.MustCompile(`(?m)^ +(?:args|command): (\["serve".*\])$`)

// The servers of the examples for containers have valid flags and settings without a contradiction.
func TestExamplesForContainersAreValid(t *testing.T) {
	for _, name := range []string{"compose.yaml", "kubernetes.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "packaging", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := commandLine.FindAllSubmatch(text, -1)
		if len(lines) != 1 {
			t.Fatalf("%s has %d servers", name, len(lines))
		}
		var args []string
		if err := json.Unmarshal(lines[0][1], &args); err != nil {
			t.Fatal(err)
		}
		a := &app{env: os.Getenv}
		serve, rest, err := a.root().Find(args)
		if err == nil {
			err = serve.ParseFlags(rest)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := serveOptions{given: func(key string) bool { return serve.Flags().Lookup(key).Changed }}
		o.Options = a.settings
		if err := o.file.Check(&o.Options, o.given); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, key := range []string{"config", "listen", "rdma-listen", "metrics", "state"} {
			if !o.given(key) {
				t.Errorf("%s has no --%s", name, key)
			}
		}
	}
}
